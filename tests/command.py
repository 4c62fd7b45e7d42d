"""Runs stages in processes, as users do."""

import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import warm_python

from t2t_keras.optional_packages import EXTRAS

# Seconds until a process counts as hung. CI machines may be very slow.
PATIENCE = 600
# Also dependencies of core packages.
DEPENDENCIES_OF_CORE = {"grpc", "urllib3", "huggingface_hub", "kagglehub"}
OPTIONAL = {m for modules in EXTRAS.values() for m in modules} - DEPENDENCIES_OF_CORE
# Extras that a stage requires.
NEEDED = {
    "serve": ["server"],
    "visualize": ["visualize"],
    "complexity": ["visualize"],
}
WORDS = ["red", "green", "blue", "one", "two", "three", "big", "small", "old", "new"]


def free_ports(number):
    """Returns free ports of this machine."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def can_bind(host):
    """Returns whether this machine has an address."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        try:
            trial.bind((host, 0))
        except OSError:
            return False
    return True


@functools.cache
def _warm_python():
    """Starts the process that stages are forked from; it exits with this one."""
    return subprocess.Popen(
        [sys.executable, warm_python.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def stage(name, *arguments, status=0, stdin=None, extras=None):
    """Runs `python -m t2t_keras.pipelines.NAME` and checks its exit status.

    TensorFlow is loaded once for all of them: see warm_python.py. Optional packages are
    missing, as after a plain `pip install`, except those of `extras`: by default the
    extras that the stage requires.

    Returns:
        The finished process, its output as text.
    """
    installed = NEEDED.get(name, []) if extras is None else extras
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, which) for which in ("stdin", "stdout", "stderr")]
        for file, content in zip(files, (stdin or b"", b"", b""), strict=True):
            file.write_bytes(content)
        request = {
            "module": f"t2t_keras.pipelines.{name}",
            "arguments": [str(argument) for argument in arguments],
            "directory": os.getcwd(),
            "environment": dict(os.environ),
            "files": [str(file) for file in files],
            "missing": sorted(OPTIONAL.difference(*(EXTRAS[e] for e in installed))),
        }
        python = _warm_python()
        python.stdin.write(json.dumps(request) + "\n")
        python.stdin.flush()
        process = subprocess.CompletedProcess(
            [name, *arguments],
            int(python.stdout.readline()),
            *(file.read_bytes().decode("utf-8") for file in files[1:]),
        )
    assert process.returncode == status, process.stderr
    assert "Traceback" not in process.stderr
    assert "warn" not in process.stderr.lower(), process.stderr
    return process


def prepare_words(work, **sizes):
    """Writes and prepares a corpus of random words, with capitals as translations.

    Args:
        work: Directory for the files and for `data`.
        **sizes: Number of pairs of each split.
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
