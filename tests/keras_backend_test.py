"""Tests that Keras backends other than TensorFlow are rejected."""

import json
import os
import subprocess
import sys

import pytest


def python(*arguments, **environment):
    """Runs Python with no other Keras variables in its environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KERAS_")}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("stage", ["train", "request"])
def test_stage_exits_with_2_and_names_the_variable(stage):
    flags = {
        "train": ["--data_dir=none", "--model_dir=none", "--preset=tiny"],
        "request": ["--model_name=none", "--server=none"],
    }
    process = python(
        "-m", f"t2t_keras.pipelines.{stage}", *flags[stage], KERAS_BACKEND="jax"
    )
    assert process.returncode == 2
    (line,) = process.stderr.splitlines()
    assert "KERAS_BACKEND=jax" in line
    assert line.endswith("Set the environment variable KERAS_BACKEND=tensorflow.")


@pytest.mark.parametrize(
    "statement",
    [
        "from t2t_keras import Transformer",
        "import t2t_keras; t2t_keras.padding_mask",
        "from t2t_keras.transformer import Transformer",
        "from t2t_keras.layers.linear import Linear",
        "import t2t_keras.training.losses",
        "import t2t_keras.model_dir",
    ],
)
def test_import_raises_the_same_message(statement):
    process = python("-c", statement, KERAS_BACKEND="torch")
    error = process.stderr.splitlines()[-1]
    assert error.startswith("t2t_keras.keras_backend.WrongBackend: ")
    assert "KERAS_BACKEND=torch" in error
    # Callers can catch it as an ImportError.
    caught = f"try:\n  {statement}\nexcept ImportError:\n  print('caught')"
    assert python("-c", caught, KERAS_BACKEND="torch").stdout == "caught\n"


def test_keras_json_decides_if_the_variable_is_not_set(tmp_path):
    statement = "from t2t_keras.keras_backend import require_tensorflow as r; r()"
    settings = tmp_path / "keras.json"
    settings.write_text(json.dumps({"backend": "jax"}))
    process = python("-c", statement, KERAS_HOME=str(tmp_path))
    assert f"{settings} has the backend 'jax'" in process.stderr
    for content, backend in (
        ('{"backend": "jax"}', "tensorflow"),
        ('{"backend": "tensorflow"}', ""),
        ("{}", ""),
        ("damaged", ""),
    ):
        settings.write_text(content)
        process = python(
            "-c", statement, KERAS_HOME=str(tmp_path), KERAS_BACKEND=backend
        )
        assert process.returncode == 0, process.stderr


def test_backend_of_an_imported_keras_decides():
    # No other backend is installed here, so a stand-in takes the place of Keras.
    process = python(
        "-c",
        "import sys, types; keras = sys.modules['keras'] = types.ModuleType('keras');"
        "keras.config = types.SimpleNamespace(backend=lambda: 'jax');"
        "import t2t_keras.layers",
        KERAS_BACKEND="tensorflow",
    )
    assert "already imported with the backend 'jax'" in process.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
