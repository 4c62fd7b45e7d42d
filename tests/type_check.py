"""Runs mypy on the library, the flags and the pipelines.

`flags` and `pipelines` are modules of `t2t_keras` only after installation. So mypy
checks a temporary folder with the layout of the installed package.

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
    """Prints the output of mypy with repository paths. Returns its exit status."""
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
