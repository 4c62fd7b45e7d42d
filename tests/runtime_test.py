"""Tests that only `runtime.configure` sets environment variables and threads."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from t2t_keras import runtime
from t2t_keras.errors import UserError

ROOT = Path(__file__).parents[1]
NAMES = {name for process in runtime.PROCESSES for name in runtime.environment(process)}


def run_python(code, **environment):
    """Runs code with only the given variables set. Returns its output."""
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    return subprocess.check_output(
        [sys.executable, "-c", code], env={**kept, **environment}, text=True
    )


def test_importing_the_library_sets_nothing():
    shown = run_python(
        "import gc, json, os\n"
        f"names = {sorted(NAMES)}\n"
        "before = gc.get_threshold()\n"
        "from t2t_keras import Transformer, runtime\n"
        "import tensorflow as tf\n"
        "try:\n"
        "    runtime.configure()\n"
        "except RuntimeError as error:\n"
        "    late = str(error)\n"
        "print(json.dumps([\n"
        "    [name for name in names if name in os.environ],\n"
        "    gc.get_threshold() == before,\n"
        "    tf.config.threading.get_intra_op_parallelism_threads(),\n"
        "    late,\n"
        "]))"
    )
    found, same_threshold, threads, late = json.loads(shown)
    assert not found
    assert same_threshold
    assert threads == 0
    # A call that comes too late raises an error and sets nothing.
    assert "before TensorFlow is imported" in late
    assert "TF_ENABLE_ONEDNN_OPTS" in late


@pytest.mark.parametrize("process", runtime.PROCESSES)
@pytest.mark.parametrize("given", [{}, {"TF_ENABLE_ONEDNN_OPTS": "0"}])
def test_configure_keeps_variables_that_the_user_has_set(process, given):
    shown = run_python(
        "import gc, json, os\n"
        "from t2t_keras import runtime\n"
        f"runtime.configure({process!r})\n"
        f"found = {{name: os.environ.get(name) for name in {sorted(NAMES)}}}\n"
        "print(json.dumps([found, gc.get_threshold()[0]]))",
        **given,
    )
    found, threshold = json.loads(shown)
    assert found == {**dict.fromkeys(NAMES), **runtime.environment(process), **given}
    assert threshold == 50_000


def test_weights_are_assumed_frozen_only_in_decoding():
    name = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
    frozen = [p for p in runtime.PROCESSES if name in runtime.environment(p)]
    assert frozen == ["decoding"]


def test_configure_rejects_an_unknown_process():
    with pytest.raises(ValueError, match="Received: 'inference'"):
        runtime.configure("inference")


def test_training_is_correct_if_the_user_sets_frozen_weights():
    shown = run_python(
        "from t2t_keras import runtime\n"
        "runtime.configure(concurrent=8)\n"
        "import tensorflow as tf\n"
        "from t2t_keras.layers import Linear\n"
        "layer = Linear(64)\n"
        "x = tf.ones([32, 8, 64])\n"
        "call = tf.function(layer)\n"
        "call(x)\n"
        "layer.kernel.assign(tf.ones([64, 64]))\n"
        "print(call(x)[0, 0, 0].numpy())\n"
        "print(tf.config.threading.get_intra_op_parallelism_threads())",
        TF_ONEDNN_ASSUME_FROZEN_WEIGHTS="1",
        TF_NUM_INTRAOP_THREADS="3",
    )
    # The new weights, and the number of threads that the user has set.
    assert shown.split() == ["64.0", "0"]


_STAGE = """
import os, sys
from t2t_keras import runtime
from t2t_keras.pipelines import stage
def main():
    # TensorFlow is imported before a stage's main function is called.
    assert "tensorflow" in sys.modules
    print(*(os.environ[name] for name in runtime.environment("decoding")))
sys.argv[1:] = []
stage.run(main, "__main__", process="decoding")
"""


def test_stage_configures_its_process_before_importing_tensorflow():
    assert run_python(_STAGE).split() == [*runtime.environment("decoding").values()]


def test_lower_memory_limit_of_the_user_is_kept(monkeypatch):
    name = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
    for given, expected in (("100", "100"), ("900", "500"), (None, "500")):
        if given is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, given)
        runtime.limit_tensors(500 << 20)
        assert os.environ[name] == expected
    monkeypatch.setenv(name, "much")
    with pytest.raises(UserError, match="Received: 'much'"):
        runtime.limit_tensors(500 << 20)


# Variables read there configure a backend, a cluster or an account, not speed.
READERS = {
    "t2t_keras/runtime.py",
    "t2t_keras/keras_backend.py",
    "t2t_keras/training/strategy.py",
    "flags/server_access.py",
}
READING = re.compile(r"\benviron\b|\bgetenv\b|set_\w+_parallelism_threads")


def test_nothing_else_reads_the_environment_or_sets_threads():
    found = {
        str(path.relative_to(ROOT))
        for folder in ("t2t_keras", "flags", "pipelines")
        for path in (ROOT / folder).rglob("*.py")
        if READING.search(path.read_text())
    }
    assert found == READERS


def process_of(stage):
    """Returns the `process` that a stage passes to `stage.run`, if any."""
    for node in ast.walk(ast.parse(stage.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "stage.run":
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            return ast.literal_eval(given["process"]) if "process" in given else None
    return None


def test_documentation_names_each_variable_and_its_commands():
    page = (ROOT / "docs" / "performance.md").read_text()
    table = {
        name: line
        for line in page.splitlines()
        if (cells := re.match(r"\| `(\w+)[^`]*` \| ", line))
        for name in [cells[1]]
    }
    assert set(table) >= NAMES
    every = set.intersection(*(set(runtime.environment(p)) for p in runtime.PROCESSES))
    for name in every:
        assert table[name].split("|")[2].strip() == "all", name
    for name in NAMES - every:
        own = {p for p in runtime.PROCESSES if name in runtime.environment(p)}
        commands = {
            f"t2t-{stage.stem.replace('_', '-')}"
            for stage in (ROOT / "pipelines").glob("*.py")
            if process_of(stage) in own
        }
        assert set(re.findall(r"t2t-\w+", table[name].split("|")[2])) == commands


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
