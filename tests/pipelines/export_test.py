"""Tests of t2t-export as a process: output files, messages and errors."""

import json
import sys

import command
import keras
import numpy as np
import pytest
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel as SavedModelProto

from t2t_keras.model_dir import ModelDir
from t2t_keras.server.saved_model import SavedModel

OTHER_ENVIRONMENT = {
    "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS": "1",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_CPU_ALLOCATOR_USE_BFC": "false",
    "TF_NUM_INTRAOP_THREADS": "1",
    "PYTHONHASHSEED": "7",
}


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    work = tmp_path_factory.mktemp("export")
    command.prepare_words(work, train=60, dev=12)
    path = work / "model"
    command.stage(
        "train",
        f"--data_dir={work}/data",
        f"--model_dir={path}",
        "--preset=tiny",
        "--num_layers=1",
        "--d_model=16",
        "--d_ff=32",
        "--num_heads=2",
        "--train_steps=4",
        "--batch_tokens=200",
    )
    return path


@pytest.fixture(scope="module")
def flags(model_dir):
    return f"--model_dir={model_dir}", "--beam_size=2"


@pytest.fixture(scope="module")
def exported(flags, tmp_path_factory):
    """A directory with one exported version, and the process that exported it."""
    base = tmp_path_factory.mktemp("exported") / "base"
    return base, command.stage("export", *flags, f"--export_dir={base}")


def test_export_writes_versions_with_cards_warmup_and_keras_weights(
    model_dir, flags, exported
):
    base, first = exported
    flags = (*flags, f"--export_dir={base}")
    assert f"Wrote {base}/1: " in first.stdout
    assert "Checked 12 sentences: same translations as t2t-translate." in first.stderr
    second = command.stage("export", *flags, "--weights_dtype=bfloat16")
    assert "BLEU " in second.stdout
    assert "with bfloat16 weights: " in second.stdout
    assert "|tok:13a|" in second.stdout
    assert sorted(path.name for path in base.iterdir()) == ["1", "2"]

    card = json.loads((base / "2" / "assets.extra" / "model_card.json").read_text())
    assert card["data"]["splits"]["train"]["pairs"] == 60
    assert card["serving"]["weights_dtype"] == "bfloat16"
    assert card["serving"]["beam_size"] == card["serving"]["n_best"] == 2
    # Not given on the command line, so the preset's value.
    assert card["serving"]["length_penalty"] == 1.4
    assert isinstance(card["serving"]["bleu_difference"], float)
    assert set(card["versions"]) >= {"t2t-keras", "tensorflow", "tensorflow-text"}
    text = (base / "1" / "assets.extra" / "model_card.md").read_text()
    assert "- train pairs: 60\n" in text
    assert "`t2t-evaluate` was not run" in text

    trained = ModelDir(model_dir).load_model()
    loaded = keras.models.load_model(base / "2" / "assets.extra" / "model.keras")
    assert loaded.count_params() == card["parameters"][0]
    for ours, theirs in zip(trained.variables, loaded.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())

    command.stage("evaluate", f"--model_dir={model_dir}", "--split=dev")
    command.stage("export", *flags, "--nokeras_file", "--version=7")
    extra = base / "7" / "assets.extra"
    assert not (extra / "model.keras").exists()
    card = json.loads((extra / "model_card.json").read_text())
    assert "nrefs:1" in card["scores"]["dev"]["scores"][0]["signature"]
    assert card["scores"]["dev"]["length_penalty"] == 1.4


def test_exported_search_uses_the_options_of_the_flags(model_dir, tmp_path):
    flags = ("--beam_size=3", "--length_penalty=1.5", "--max_extra_length=2")
    common = (f"--model_dir={model_dir}", *flags)
    base = f"--export_dir={tmp_path}/base"
    command.stage("export", *common, base, "--export_n_best=1", "--nokeras_file")
    lines = "red green\nold blue two\n"
    printed = command.stage(
        "translate", *common, "--print_scores", stdin=lines.encode()
    )
    model = SavedModel(tmp_path / "base" / "1")
    found = model.run(
        "n_best",
        {"text": np.array(lines.splitlines(), object)},
        {"translations", "scores"},
    )
    model.close()
    rows = [line.split("\t") for line in printed.stdout.splitlines()]
    assert [text for _, text in rows] == [t.decode() for (t,) in found["translations"]]
    scores = [float(score) for score, _ in rows]
    np.testing.assert_allclose(scores, found["scores"][:, 0], atol=1.5e-4)


def test_graph_does_not_depend_on_the_environment(
    flags, exported, tmp_path, monkeypatch
):
    for name, value in OTHER_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    command.stage("export", *flags, f"--export_dir={tmp_path}/other")
    here, other = (
        SavedModelProto.FromString(
            (base / "1" / "saved_model.pb").read_bytes()
        ).meta_graphs[0]
        for base in (exported[0], tmp_path / "other")
    )
    is_equal = here.graph_def == other.graph_def
    assert is_equal  # pytest would print both graphs.


def test_rejected_export_leaves_nothing_behind(model_dir, tmp_path):
    base = tmp_path / "base"
    (base / "3").mkdir(parents=True)
    flags = (f"--model_dir={model_dir}", f"--export_dir={base}")
    for arguments, message in (
        ([*flags, "--version=3"], "already has a version 3"),
        (
            [*flags, "--beam_size=2", "--export_n_best=3"],
            "n_best must be at most beam_size",
        ),
        ([*flags, "--checkpoint=99"], "There is no checkpoint"),
        ([flags[0], f"--export_dir={model_dir}/config.json"], "cannot be written to"),
        ([flags[0]], "--export_dir must be given"),
    ):
        assert message in command.stage("export", *arguments, status=2).stderr
    assert [path.name for path in base.iterdir()] == ["3"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
