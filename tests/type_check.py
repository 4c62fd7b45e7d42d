"""Runs mypy on the library, the flags and the pipelines.

`flags` and `pipelines` are modules of `t2t_keras` only once they are installed, which
mypy cannot know. So it checks a folder in which they lie where setup.py puts them.

    .venv/bin/python tests/type_check.py
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Prints what mypy says, with the repository's own paths; returns its status."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "t2t_keras")
        package.mkdir()
        for entry in [
            *(ROOT / "t2t_keras").iterdir(),
            ROOT / "flags",
            ROOT / "pipelines",
        ]:
            (package / entry.name).symlink_to(entry)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "mypy"),
                f"--config-file={ROOT / 'pyproject.toml'}",
                f"--cache-dir={ROOT / '.mypy_cache'}",
                "t2t_keras",
            ],
            cwd=folder,
            env=os.environ | {"MYPYPATH": folder},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    own_paths = re.sub(
        r"^t2t_keras/(?=(flags|pipelines)/)", "", done.stdout, flags=re.MULTILINE
    )
    print(own_paths, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
