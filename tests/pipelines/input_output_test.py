"""Standard streams that are closed or full, and what is written then."""

import os
import subprocess
import sys

import pytest

_STAGE = """
import sys, types
sys.modules["tensorflow"] = types.ModuleType("tensorflow")  # Takes seconds to load.
from t2t_keras.pipelines import input_output, stage
def main(arguments):
    with open("opened", "w") as file:
        assert file.fileno() > 2
        stage.report("a message")
        if arguments:
            with input_output.open_output(*arguments) as output:
                output.write(b"a result\\n")
        else:
            print("a result")
stage.run(main, "__main__", takes_arguments=True)
"""
CLOSED = "a message\nerror: Standard output is closed: give --output=FILE.\n"
UNWRITABLE = "a message\nerror: Standard output cannot be written to: {}.\n"


def run(directory, redirections, *arguments):
    """Runs the stage by a shell that redirects its streams; returns the process."""
    return subprocess.run(
        [
            *("sh", "-c", f'exec "$@" {redirections}', "sh"),
            *(sys.executable, "-c", _STAGE, *arguments),
        ],
        cwd=directory,
        capture_output=True,
        input="",
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )


@pytest.mark.parametrize(
    ("redirections", "arguments", "status", "output", "messages"),
    [
        ("<&-", [], 0, "a result\n", "a message\n"),
        ("2>&-", [], 0, "a result\n", ""),
        ("2>/dev/full", [], 0, "a result\n", ""),
        (">&-", [], 1, "", UNWRITABLE.format("Bad file descriptor")),
        (">/dev/full", [], 1, "", UNWRITABLE.format("No space left on device")),
        (">&-", ["-"], 2, "", CLOSED),
        (">&-", ["/dev/stdout"], 2, "", CLOSED),
        (">&-", ["file"], 0, "", "a message\n"),
        (">&-", ["--help"], 1, "", UNWRITABLE[10:].format("Bad file descriptor")),
        ("2>&-", ["--unknown"], 2, "", ""),
        ("2>/dev/full", ["--unknown"], 2, "", ""),
        ("<&- >&- 2>&-", [], 1, "", ""),
        ("<&- >&- 2>&-", ["file"], 0, "", ""),
    ],
)
def test_closed_streams_lose_no_result_and_reach_no_file(
    redirections, arguments, status, output, messages, tmp_path
):
    process = run(tmp_path, redirections, *arguments)
    found = (process.returncode, process.stdout, process.stderr)
    assert found == (status, output, messages)
    # A file that had a standard stream's descriptor would hold what was printed.
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert files.pop("opened", "") == ""
    assert files == ({"file": "a result\n"} if arguments == ["file"] else {})


def test_output_to_a_file_of_the_shell_is_appended(tmp_path):
    (tmp_path / "log").write_text("before\n")
    assert run(tmp_path, ">>log", "/dev/stdout").returncode == 0
    assert (tmp_path / "log").read_text() == "before\na result\n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
