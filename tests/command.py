"""Runs stages as a user does: real processes."""

import contextlib
import socket
import subprocess
import sys

import numpy as np

WORDS = ["red", "green", "blue", "one", "two", "three", "big", "small", "old", "new"]


def free_ports(number):
    """Returns ports of this machine that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def stage(name, *arguments, status=0, stdin=None):
    """Runs `python -m t2t_keras.pipelines.NAME` and checks how it ended.

    Returns:
        The finished process, its output as text.
    """
    process = subprocess.run(
        [sys.executable, "-m", f"t2t_keras.pipelines.{name}", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
    )
    process.stdout = process.stdout.decode("utf-8")
    process.stderr = process.stderr.decode("utf-8")
    assert process.returncode == status, process.stderr
    assert "Traceback" not in process.stderr
    assert "warn" not in process.stderr.lower(), process.stderr
    return process


def prepare_words(work, **sizes):
    """Writes splits of random words and the same in capitals, and prepares them.

    Args:
        work: Directory for the files and for `data`.
        **sizes: The number of pairs of each split.
    """
    rng = np.random.default_rng(0)
    for split, number in sizes.items():
        lines = [" ".join(rng.choice(WORDS, rng.integers(1, 7))) for _ in range(number)]
        (work / f"{split}.tsv").write_text(
            "".join(f"{line}\t{line.upper()}\n" for line in lines)
        )
    stage(
        "prepare",
        "--corpus=text",
        "--vocab_size=60",
        f"--data_dir={work}/data",
        *(f"--{split}_source={work}/{split}.tsv" for split in sizes),
    )
