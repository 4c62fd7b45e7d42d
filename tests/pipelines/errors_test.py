"""Exit status and messages of a stage: user errors versus bugs."""

import subprocess
import sys

import command
import pytest

_STAGE = """
import sys, types
sys.modules["tensorflow"] = types.ModuleType("tensorflow")  # Nothing is computed.
from t2t_keras.errors import UserError
from t2t_keras.pipelines import stage
def main():
    {work}
stage.run(main, "__main__")
"""
TOO_LONG = "a" * 300


def run_stage(work, *arguments):
    return subprocess.run(
        [sys.executable, "-c", _STAGE.format(work=work), *arguments],
        capture_output=True,
        text=True,
    )


def test_user_error_is_one_line_and_exits_with_2():
    process = run_stage('raise UserError("--d_model must be at least 1. Received: 0")')
    assert process.returncode == 2
    assert process.stderr == "error: --d_model must be at least 1. Received: 0\n"


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("list(zip([1], [1, 2], strict=True))", "ValueError: zip() argument 2 is"),
        ('int("x")', "ValueError: invalid literal for int() with base 10: 'x'"),
        ('raise ValueError("no rows")', "ValueError: no rows"),
        ('b"\\xff".decode()', "UnicodeDecodeError: 'utf-8' codec can't decode"),
        ("{}['a']", "KeyError: 'a'"),
    ],
)
def test_bug_exits_with_1_and_shows_its_type_and_how_to_get_a_traceback(work, message):
    process = run_stage(work)
    first, second = process.stderr.splitlines()
    assert process.returncode == 1
    assert first.startswith(f"error: {message}")
    assert second.startswith("Run with --verbosity=1 for a traceback")
    traced = run_stage(work, "--verbosity=1")
    assert traced.returncode == 1
    assert "Traceback (most recent call last)" in traced.stderr
    assert f"error: {message}" in traced.stderr


@pytest.mark.parametrize("content", [b"[]", b"null", b"\xff", b"{", b"[" * 100_000])
def test_damaged_config_is_a_user_error_that_names_the_file(content, tmp_path):
    config = tmp_path / "config.json"
    config.write_bytes(content)
    process = command.stage("translate", f"--model_dir={tmp_path}", status=2)
    (line,) = process.stderr.splitlines()
    assert line.startswith(f"error: {config} is damaged: ")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("translate", [f"--model_dir={TOO_LONG}"]),
        ("train", [f"--data_dir={TOO_LONG}", "--model_dir=m"]),
        ("prepare", ["--corpus=text", f"--train_source={TOO_LONG}", "--data_dir=d"]),
        ("translate", ["--model_dir=m", f"--output={TOO_LONG}"]),
        ("complexity", [f"--output_dir={TOO_LONG}"]),
        ("serve", [f"--model_base_path={TOO_LONG}", "--port=0"]),
    ],
)
def test_impossible_path_is_a_user_error(name, arguments, tmp_path):
    *_, line = command.stage(name, *arguments, status=2).stderr.splitlines()
    assert line.startswith("error: ")
    assert TOO_LONG in line


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
