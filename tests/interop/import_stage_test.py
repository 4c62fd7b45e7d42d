"""Imports a model with t2t-import, and runs the other stages on the result."""

import json
import os
import shutil
import sys

import numpy as np
import pytest
from command import stage
from hf_archive import LINES, write_archive

from t2t_keras.export.session_loader import run_signature
from t2t_keras.model_dir import ModelDir


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Returns a directory with the imported model `model` and prepared data `data`."""
    work = tmp_path_factory.mktemp("import")
    write_archive(work / "opus", generation={"num_beams": 3, "max_length": 12})
    done = stage("import_model", f"--input={work}/opus", f"--model_dir={work}/model")
    assert "Imported" in done.stderr
    assert "hf_marian" in done.stderr
    for split, number in (("train", 60), ("dev", 6)):
        for side, lines in LINES.items():
            text = "".join(f"{line}\n" for line in (lines * number)[:number])
            (work / f"{split}.{side}").write_text(text)
    stage(
        "prepare",
        "--corpus=text",
        *(
            f"--{split}_{side}={work}/{split}.{side}"
            for split in ("train", "dev")
            for side in LINES
        ),
        "--source_lang=en",
        "--target_lang=de",
        f"--data_dir={work}/data",
        f"--vocabulary_from={work}/model",
    )
    return work


def translate(work, *arguments):
    flags = f"--model_dir={work}/model", f"--input={work}/dev.source"
    return stage("translate", *flags, *arguments).stdout.splitlines()


def test_import_refuses_what_it_cannot_read_and_leaves_nothing(work, tmp_path):
    for path, message in (
        (tmp_path / "none", "No such file"),
        (work / "data", "no model of a known format"),
        (work / "model", "model_type"),
    ):
        refused = stage(
            "import_model", f"--input={path}", f"--model_dir={tmp_path}/new", status=2
        ).stderr
        assert message in refused
        assert refused.count("\n") == 1
    assert not (tmp_path / "new").exists()
    refused = stage(
        "import_model", f"--input={work}/opus", f"--model_dir={work}/model", status=2
    ).stderr
    assert "not an empty directory" in refused


def test_pipes_and_packed_files_are_refused_without_being_read(work, tmp_path):
    shutil.copytree(work / "opus", tmp_path / "pipe")
    (tmp_path / "pipe" / "vocab.json").unlink()
    os.mkfifo(tmp_path / "pipe" / "vocab.json")
    shutil.copytree(work / "opus", tmp_path / "folder")
    (tmp_path / "folder" / "generation_config.json").unlink(missing_ok=True)
    (tmp_path / "folder" / "generation_config.json").mkdir()
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "model.ende.bin.gz").write_bytes(b"")
    for name, message in (
        ("folder", "generation_config.json is a directory, but must be a file"),
        ("pipe", "vocab.json is neither a file nor a directory"),
        ("packed", "Unpack model.ende.bin.gz with gunzip first"),
    ):
        flags = f"--input={tmp_path}/{name}", f"--model_dir={tmp_path}/new"
        assert message in stage("import_model", *flags, status=2).stderr


def test_stages_use_the_generation_settings_unless_flags_override_them(work):
    def longest(*arguments):
        lines = translate(work, "--output_format=json", *arguments)
        best = [json.loads(line)["hypotheses"][0] for line in lines]
        return max(len(hypothesis["tokens"]) for hypothesis in best)

    # The last of 11 generated tokens is the end token.
    assert longest() == 10
    assert longest("--max_output_tokens=20") > 10
    evaluated = stage(
        "evaluate",
        f"--model_dir={work}/model",
        f"--source={work}/dev.source",
        f"--reference={work}/dev.target",
    ).stdout
    assert "perplexity" in evaluated
    record = json.loads((work / "model" / "scores.file.dev.json").read_text())
    assert (record["beam_size"], record["length_penalty_beta"]) == (3, 0)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("evaluate", ["--split=test"], "no test split: it is an imported model"),
        ("average", [], "an imported model, which has no checkpoint."),
        ("cost", [], "an imported model, which has no checkpoint."),
        ("translate", ["--checkpoint=latest"], "an imported model, which has no"),
        ("parse", ["--input=x"], "is not a parser"),
        ("train", ["--data_dir=DATA"], "--init_from="),
    ],
)
def test_stages_explain_what_an_imported_model_lacks(work, name, arguments, message):
    arguments = [a.replace("DATA", f"{work}/data") for a in arguments]
    refused = stage(name, f"--model_dir={work}/model", *arguments, status=2).stderr
    assert message in refused


def test_export_of_an_imported_model_translates_alike(work):
    stage("export", f"--model_dir={work}/model", f"--export_dir={work}/versions")
    sentences = (work / "dev.source").read_text().splitlines()
    text = np.array([sentence.encode() for sentence in sentences], object)
    found = run_signature(work / "versions" / "1", {"text": text}, ["translation"])
    answers = [answer.decode() for answer in found["translation"]]
    assert answers == translate(work)
    card = (work / "versions" / "1" / "assets.extra" / "model_card.md").read_text()
    assert "from en to de, imported with t2t-keras from hf_marian:opus." in card


def test_imported_model_is_trained_further_and_resumed_exactly(work):
    shutil.copytree(work / "model", work / "gone")

    def train(name, steps, init_from):
        return stage(
            "train",
            f"--data_dir={work}/data",
            f"--model_dir={work}/{name}",
            f"--init_from={work}/{init_from}",
            f"--train_steps={steps}",
            "--batch_tokens=60",
            "--warmup_steps=4",
            "--learning_rate=0.5",
            "--checkpoint_steps=4",
            "--bleu_sentences=0",
            "--sample_sentences=0",
        ).stderr

    whole = train("whole", 8, "model")
    assert f"Initialized with the weights of {work}/model." in whole
    train("cut", 3, "gone")
    shutil.rmtree(work / "gone")
    train("cut", 8, "gone")
    arrays = [
        {v.path: v.numpy() for v in ModelDir(work / name).load_model().variables}
        for name in ("whole", "cut", "model")
    ]
    for path, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][path], path)
    new, old = ModelDir(work / "whole"), ModelDir(work / "model")
    assert new.transformer_config == old.transformer_config
    assert new.search == old.search

    nll = [new.checkpoints.metrics(step)["val_nll"] for step in (4, 8)]
    assert nll[1] < 0.95 * nll[0]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
