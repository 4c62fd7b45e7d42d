"""Tests of closed or full standard streams."""

import os
import subprocess
import sys

import pytest

_STAGE = """
import sys, types
sys.modules["tensorflow"] = types.ModuleType("tensorflow")  # Saves seconds.
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
def main(arguments):
    with open("opened", "w") as file:
        assert file.fileno() > 2
        stage.report("a message")
        if arguments:
            with standard_streams.open_output(*arguments) as output:
                output.write(b"a result\\n")
                output.flush()  # As stages with interactive input do.
        else:
            print("a result")
stage.run(main, "__main__", takes_arguments=True)
"""
CLOSED = "error: Standard output is closed: redirect it to a file or to /dev/null.\n"
FULL = "error: {} cannot be written to: No space left on device.\n"
MESSAGE = "a message\n"


def run(directory, redirections, *arguments, unbuffered=""):
    """Runs the stage in a shell that redirects its streams. Returns the process."""
    return subprocess.run(
        [
            *("sh", "-c", f'exec "$@" {redirections}', "sh"),
            *(sys.executable, "-c", _STAGE, *arguments),
        ],
        cwd=directory,
        capture_output=True,
        input="",
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )


@pytest.mark.parametrize(
    ("redirections", "arguments", "status", "output", "messages"),
    [
        ("<&-", [], 0, "a result\n", "a message\n"),
        ("2>&-", [], 0, "a result\n", ""),
        ("2>/dev/full", [], 0, "a result\n", ""),
        (">&-", [], 2, "", MESSAGE + CLOSED),
        (">&-", ["-"], 2, "", MESSAGE + CLOSED),
        (">&-", ["/dev/stdout"], 2, "", MESSAGE + CLOSED),
        (">/dev/full", [], 1, "", MESSAGE + FULL.format("Standard output")),
        (">/dev/full", ["-"], 1, "", MESSAGE + FULL.format("Standard output")),
        ("", ["/dev/full"], 1, "", MESSAGE + FULL.format("/dev/full")),
        (">&-", ["file"], 0, "", "a message\n"),
        (">&-", ["--help"], 2, "", CLOSED),
        (">/dev/full", ["--help"], 1, "", FULL.format("Standard output")),
        ("2>&-", ["--unknown"], 2, "", ""),
        ("2>/dev/full", ["--unknown"], 2, "", ""),
        ("<&- >&- 2>&-", [], 2, "", ""),
        ("<&- >&- 2>&-", ["file"], 0, "", ""),
    ],
)
def test_closed_streams_lose_no_result_and_overwrite_no_file(
    redirections, arguments, status, output, messages, tmp_path
):
    process = run(tmp_path, redirections, *arguments)
    found = (process.returncode, process.stdout, process.stderr)
    assert found == (status, output, messages)
    # A file that got the descriptor of a closed stream would contain the output.
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert files.pop("opened", "") == ""
    assert files == ({"file": "a result\n"} if arguments == ["file"] else {})


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_write_errors_name_the_output(unbuffered, tmp_path):
    for arguments in ([], ["-"]):
        process = run(tmp_path, ">/dev/full", *arguments, unbuffered=unbuffered)
        expected = MESSAGE + FULL.format("Standard output")
        assert (process.returncode, process.stderr) == (1, expected)
    # A file size limit stands in for a full disk.
    limited = [
        *("sh", "-c", 'ulimit -f 1; exec "$@"', "sh"),
        *(sys.executable, "-c", _STAGE.replace("a result", "a" * 2000), "out"),
    ]
    process = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 1
    expected = f"error: {tmp_path / 'out'} cannot be written to: File too large.\n"
    assert process.stderr == MESSAGE + expected
    assert [path.name for path in tmp_path.iterdir()] == ["opened"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("module", ["train", "translate"])
def test_help_ends_quietly_when_the_reader_closes_the_pipe(module, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", f"t2t_keras.pipelines.{module}", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (1, "")


@pytest.mark.parametrize(
    ("redirections", "status", "message"),
    [(">&-", 2, CLOSED), (">/dev/full", 1, FULL.format("Standard output"))],
)
def test_help_longer_than_the_buffer_reports_write_errors(
    redirections, status, message
):
    process = subprocess.run(
        [
            *("sh", "-c", f'exec "$@" {redirections}', "sh"),
            *(sys.executable, "-m", "t2t_keras.pipelines.train", "--help"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (process.returncode, process.stderr) == (status, message)


def test_output_is_appended_to_a_file_that_the_shell_redirects_to(tmp_path):
    (tmp_path / "log").write_text("before\n")
    assert run(tmp_path, ">>log", "/dev/stdout").returncode == 0
    assert (tmp_path / "log").read_text() == "before\na result\n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
