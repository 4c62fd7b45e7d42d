"""Data, model and export directories written by an older version still work.

tests/system/old_version/README.md describes them and how they were made.
"""

import json
import shutil
import sys
import tarfile
from pathlib import Path

import command
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers operations of the export.

from t2t_keras.server.saved_model import SavedModel

FOLDER = Path(__file__).with_name("old_version")
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
# Not exact: rounding depends on the vector instructions of the processor.
RELATIVE = 1e-3


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """The unpacked directories, a file of sources and a file of references."""
    work = tmp_path_factory.mktemp("old")
    with tarfile.open(FOLDER / "directories.tar.xz") as archive:
        archive.extractall(work, filter="data")
    for name in ("sources", "references"):
        (work / name).write_text("".join(f"{line}\n" for line in EXPECTED[name]))
    return work


def check_outputs(computed, expected):
    """Compares the outputs of a signature with the recorded ones."""
    for name, value in expected.items():
        array = np.asarray(computed[name])
        if array.dtype.kind == "f":
            np.testing.assert_allclose(array, value, RELATIVE, 1e-5, err_msg=name)
        else:
            if array.dtype == object:
                array = np.vectorize(bytes.decode, otypes=[object])(array)
            assert array.tolist() == value, name


def signature_inputs(names):
    return {
        name: np.array(
            EXPECTED["references" if name == "translation" else "sources"], object
        )
        for name in names
    }


def check_hypotheses(lines, expected):
    """Compares n-best lists in JSON with the recorded ones."""
    for line, recorded in zip(lines, expected, strict=True):
        entry = json.loads(line)
        assert entry["source"] == recorded["source"]
        assert entry["status"] == recorded["status"]
        for ours, theirs in zip(
            entry["hypotheses"], recorded["hypotheses"], strict=True
        ):
            assert ours["text"] == theirs["text"]
            assert ours["score"] == pytest.approx(theirs["score"], RELATIVE)


def test_training_resumes_from_old_checkpoint_on_old_data(old):
    resumed = old / "resumed"
    shutil.copytree(old / "model", resumed)
    run = command.stage(
        "train",
        f"--data_dir={old}/data",
        f"--model_dir={resumed}",
        *EXPECTED["training_flags"],
        # The older version had no cooldown.
        "--cooldown=0",
        "--train_steps=44",
        "--log_format=json",
        "--report_seconds=0",
    )
    events = [json.loads(line) for line in run.stderr.splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    recorded = EXPECTED["resumed"]["steps"]
    assert [event["step"] for event in steps] == [event["step"] for event in recorded]
    for event, theirs in zip(steps, recorded, strict=True):
        for name in ("epoch", "loss", "perplexity", "learning_rate"):
            assert event[name] == pytest.approx(theirs[name], RELATIVE), (
                name,
                event,
            )
    (dev,) = (event for event in events if event["event"] == "dev")
    for name in ("loss", "nll", "accuracy"):
        assert dev[name] == pytest.approx(EXPECTED["resumed"]["dev"][name], RELATIVE)


def test_old_model_gives_the_recorded_translations(old):
    flags = (f"--model_dir={old}/model", f"--input={old}/sources")
    flags += ("--n_best=4", "--output_format=json")
    for checkpoint, expected in EXPECTED["translations"].items():
        run = command.stage("translate", *flags, f"--checkpoint={checkpoint}")
        check_hypotheses(run.stdout.splitlines(), expected)


def test_old_model_gives_the_recorded_scores(old):
    run = command.stage(
        "score",
        f"--model_dir={old}/model",
        f"--input={old}/sources",
        f"--translations={old}/references",
    )
    columns = [line.split("\t") for line in run.stdout.splitlines()]
    np.testing.assert_allclose(
        [float(total) for total, *_ in columns], EXPECTED["scores"], RELATIVE
    )


def test_old_checkpoints_average_to_the_recorded_weights(old):
    model = old / "averaged"
    shutil.copytree(old / "model", model)
    with np.load(old / "model" / "averaged.npz") as file:
        expected = dict(file)
    (model / "averaged.npz").unlink()
    command.stage("average", f"--model_dir={model}", "--last=2")
    with np.load(model / "averaged.npz") as file:
        averaged = dict(file)
    assert set(averaged) == set(expected)
    for name, array in expected.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(averaged[name], array, 1e-6, 1e-7, err_msg=name)


def test_new_export_of_old_model_gives_the_recorded_outputs(old):
    base = old / "exported_today"
    command.stage(
        "export", f"--model_dir={old}/model", f"--export_dir={base}", "--nokeras_file"
    )
    # Alignments have changed since: they exclude attention to the source end token.
    expected = {name: dict(outputs) for name, outputs in EXPECTED["export"].items()}
    del expected["align"]["attention"]
    check_signatures(base / "1", expected)


def test_old_export_gives_the_recorded_outputs(old):
    check_signatures(old / "export" / "1", EXPECTED["export"])


def check_signatures(version, expected_of):
    """Runs all recorded signatures with our server's loader and with TensorFlow's."""
    ours, theirs = SavedModel(version), tf.saved_model.load(str(version))
    try:
        for name, expected in expected_of.items():
            inputs = signature_inputs(ours.signature(name).inputs)
            ours.check(name, inputs)
            check_outputs(ours.run(name, inputs, set(expected)), expected)
            outputs = theirs.signatures[name](
                **{key: tf.constant(value) for key, value in inputs.items()}
            )
            check_outputs({key: x.numpy() for key, x in outputs.items()}, expected)
    finally:
        ours.close()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
