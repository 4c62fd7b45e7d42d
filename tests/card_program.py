"""Runs the program in the model card of an export to CTranslate2."""

import re
import subprocess
import sys


def run_card(path, text):
    """Runs the program in a process, as users do.

    Args:
        path: The exported directory.
        text: Standard input.

    Returns:
        The lines that the program prints.
    """
    card = (path / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=path,
        input=text.encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.decode().split("\n")[:-1]
