"""Fixtures for the tests against other frameworks (make test-interop)."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PYTHON = Path(
    os.environ.get("INTEROP_PYTHON", ROOT / ".venv-interop/bin/python")
).absolute()


@pytest.fixture(scope="session")
def oracle():
    """Returns a function that runs a script of this folder with the other frameworks.

    Its arguments are the name of the script, a directory, and a request in JSON. The
    script reads the request from `request.json` in that directory, and writes arrays to
    `request.npz`, which the function returns by name. Its attribute `python` is the
    interpreter.
    """
    if not PYTHON.is_file():
        pytest.fail(f"There is no {PYTHON}. Run these tests with: make test-interop")

    def run(script, directory, request):
        path = Path(directory) / "request.json"
        path.write_text(json.dumps(request))
        done = subprocess.run(
            [PYTHON, Path(__file__).with_name(script), path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        with np.load(path.with_suffix(".npz"), allow_pickle=False) as archive:
            return dict(archive)

    run.python = PYTHON
    return run
