"""Reads Marian's archives (.npz), among them the original files of OPUS-MT.

A directory contains the archive, the decoder configuration (`decoder.yml`), and the
vocabularies: SentencePiece models, or tables (`*.yml`) with source.spm and target.spm.
"""

import math
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.interop.imported_model import ImportedModel, Origin, check_size
from t2t_keras.interop.marian_options import read_config
from t2t_keras.interop.marian_settings import (
    named_files,
    parse_yaml,
    read_settings,
    search_options,
)
from t2t_keras.interop.marian_tensors import read_arrays
from t2t_keras.interop.marian_vocabularies import read_vocabularies
from t2t_keras.interop.tensors import Tensors

_OPTIONS = "special:model.yml"
_VOCABULARY_ENDS = (".spm", ".yml", ".yaml")
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Readers of headers by version of the format."""

_DAMAGES = (
    *(OSError, ValueError, EOFError, KeyError, SyntaxError, tokenize.TokenError),
    # RuntimeError: encrypted, or an unknown compression.
    *(zipfile.BadZipFile, zlib.error, RuntimeError),
)
"""What zipfile and NumPy raise for damaged archives."""


def matches(path: Path) -> bool:
    """Returns whether a path looks like a model of Marian."""
    if path.is_dir():
        return bool(sorted(path.glob("*.npz"))) and bool(_decoder_settings(path))
    return path.is_file() and path.suffix == ".npz" and _has_options(path)


def read(path: Path) -> ImportedModel:
    """Reads a model.

    Args:
        path: The directory, or the archive in it.

    Raises:
        UserError: If a file is missing or damaged, or an option of the model or of
            decoder.yml cannot be represented.
    """
    directory = path if path.is_dir() else path.parent
    found = _decoder_settings(directory)
    if len(found) != 1:
        names = ", ".join(p.name for p in found) or "none"
        raise UserError(
            f"{directory} must contain one decoder configuration (decoder.yml). "
            f"Received: {names}"
        )
    settings_path = found[0]
    settings = read_settings(settings_path)
    model_path = path
    if path.is_dir():
        model_path = named_files(settings_path, settings, "models", 1)[0]
    content = _read_archive(model_path)
    options = content.pop(_OPTIONS, None)
    if options is None:
        raise UserError(
            f"{model_path} does not contain the model's options ({_OPTIONS})."
        )
    origin = f"{model_path}: {_OPTIONS}"
    config = read_config(
        model_path, parse_yaml(options.tobytes().rstrip(b"\0"), origin)
    )
    tensors = Tensors(model_path, content)
    check_size(config, tensors.size, model_path)
    source, target = named_files(settings_path, settings, "vocabs", 2)
    vocabularies = read_vocabularies((source, target), config.vocab_sizes())
    arrays = read_arrays(config, vocabularies.orders, tensors)
    return ImportedModel(
        config.replace(**vocabularies.sizes()),
        arrays,
        vocabularies.tokenizers,
        search_options(settings, settings_path),
        Origin("marian", path.resolve().name),
    )


def _decoder_settings(directory: Path) -> list[Path]:
    return sorted(directory.glob("*decoder.yml"))


def _has_options(path: Path) -> bool:
    return zipfile.is_zipfile(path) and f"{_OPTIONS}.npy" in _names(path)


def _names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def _read_archive(path: Path) -> dict[str, Any]:
    """Returns the arrays of an archive.

    Raises:
        UserError: If it cannot be read, is damaged, or would need more memory than an
            uncompressed archive of its size.
    """
    with user_path(path, "read"):
        size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            # Marian does not compress. An archive that inflates is refused.
            needed = sum(entry.file_size for entry in archive.infolist())
            for entry in archive.infolist():
                _check_header(archive, entry)
        if needed > 100 * size:
            raise UserError(
                f"{path} is refused: its content is {needed:,} bytes, more than 100 "
                "times its size."
            )
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except UserError:
        raise
    except _DAMAGES as error:
        raise UserError(f"{path} is damaged or no archive of NumPy arrays.") from error


def _check_header(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Checks that an entry is an array of numbers that is complete.

    NumPy allocates what the header says.

    Raises:
        ValueError: If it is not.
        Exception: One of `_DAMAGES`.
    """
    with archive.open(entry) as file:
        read = _HEADERS[np.lib.format.read_magic(file)]
        shape, _, dtype = read(file)
    needed = math.prod(shape) * dtype.itemsize
    if dtype.kind not in "fiu" or not 0 <= needed <= entry.file_size:
        raise ValueError(f"{entry.filename} is no complete array.")
