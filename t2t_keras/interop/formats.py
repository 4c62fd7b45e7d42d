"""Formats of models that can be imported, and their detection."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.interop import bergamot, hf_marian, marian_npz
from t2t_keras.interop.imported_model import ImportedModel


class Format(NamedTuple):
    """A format of models.

    Attributes:
        description: What a path of this format contains, for messages.
        matches: Returns whether a path looks like this format.
        read: Reads a model. Raises `UserError` if the files are not valid, or the model
            cannot be represented.
    """

    description: str
    matches: Callable[[Path], bool]
    read: Callable[[Path], ImportedModel]


FORMATS = {
    "hf_marian": Format(
        "the directory of a Hugging Face Marian model (config.json)",
        hf_marian.matches,
        hf_marian.read,
    ),
    "marian": Format(
        "a Marian model (*.npz) with its vocabularies",
        marian_npz.matches,
        marian_npz.read,
    ),
    "bergamot": Format(
        "a Bergamot or Firefox model (*.bin) with its vocabularies",
        bergamot.matches,
        bergamot.read,
    ),
}
"""Formats by name, a value of `--format`, in the order of detection."""


def read_model(path: str | Path, name: str = "auto") -> ImportedModel:
    """Reads a model of another framework.

    Args:
        path: File or directory.
        name: A key of `FORMATS`, or "auto" to detect the format. Default "auto".

    Raises:
        UserError: If the path does not exist, has none of the formats, its files are
            damaged, or the model cannot be represented.
    """
    path = Path(path)
    _check_regular(path)
    if name == "auto":
        with user_path(path, "read"):
            name = next((n for n, f in FORMATS.items() if f.matches(path)), "")
        if not name:
            packed = sorted(path.glob("*.gz")) if path.is_dir() else []
            hint = f" Unpack {packed[0].name} with gunzip first." if packed else ""
            raise UserError(
                f"{path} holds no model of a known format: "
                f"{', '.join(f.description for f in FORMATS.values())}.{hint}"
            )
    return FORMATS[name].read(path)


_SETTINGS = {".json", ".yml", ".yaml"}


def _check_regular(path: Path) -> None:
    """Checks that there are only files and directories: a pipe would block for ever.

    A directory in place of an optional file would count as a missing file.
    """
    with user_path(path, "read"):
        path.stat()
        entries = [path, *(path.iterdir() if path.is_dir() else ())]
        for entry in entries:
            if entry.exists() and not entry.is_file() and not entry.is_dir():
                raise UserError(f"{entry} is neither a file nor a directory.")
            if entry != path and entry.is_dir() and entry.suffix in _SETTINGS:
                raise UserError(f"{entry} is a directory, but must be a file.")
