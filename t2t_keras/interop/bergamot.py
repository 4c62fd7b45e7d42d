"""Reads the students of Bergamot and Firefox Translations.

A directory contains the model (`model.*.bin`), one SentencePiece model for both
languages (`vocab.*.spm`) or one for each (`srcvocab.*.spm`, `trgvocab.*.spm`), and
perhaps a configuration (`config.*.yml`). A lexical shortlist (`lex.*.bin`) is not used:
it proposes words to the output layer, which here always scores the whole vocabulary.

Weights are computed with in float32, also those stored as integers.
"""

import re
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import ImportedModel, Origin, check_size
from t2t_keras.interop.marian_binary import is_binary_model, read_binary
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

_LANGUAGES = re.compile(r"(?:^|\.)([a-z]{2})-?([a-z]{2})\.")
"""Languages in names such as model.enpt.intgemm.alphas.bin."""

_DEFAULT_SETTINGS = {"beam-size": 1, "normalize": 1.0, "max-length-factor": 2.0}
"""Firefox's own settings, which its models come without."""


def matches(path: Path) -> bool:
    """Returns whether a path looks like a student."""
    if path.is_dir():
        return bool(_models(path))
    return path.is_file() and is_binary_model(path)


def read(path: Path) -> ImportedModel:
    """Reads a student.

    Args:
        path: The directory, or the model's file in it.

    Raises:
        UserError: If a file is missing or damaged, or an option of the model cannot be
            represented.
    """
    directory = path if path.is_dir() else path.parent
    settings, settings_path = _settings(directory)
    model_path = _model(path, settings, settings_path)
    binary = read_binary(model_path)
    options = parse_yaml(binary.options, f"{model_path}: special:model.yml")
    config = read_config(model_path, options)
    tensors = Tensors(model_path, binary.tensors)
    check_size(config, tensors.size, model_path)
    vocabularies = read_vocabularies(
        _vocabularies(directory, settings, settings_path), config.vocab_sizes()
    )
    arrays = read_arrays(config, vocabularies.orders, tensors)
    languages = _LANGUAGES.search(model_path.name)
    return ImportedModel(
        config.replace(**vocabularies.sizes()),
        arrays,
        vocabularies.tokenizers,
        search_options(settings, settings_path),
        Origin(
            "bergamot",
            path.resolve().name,
            *(languages.groups() if languages else ()),
        ),
    )


def _models(directory: Path) -> list[Path]:
    return sorted(p for p in directory.glob("*.bin") if is_binary_model(p))


def _settings(directory: Path) -> tuple[dict[str, Any], Path]:
    """Returns the configuration, Firefox's own if there is none, and its path."""
    found = sorted(directory.glob("config*.yml"))
    if len(found) > 1:
        raise UserError(
            f"{directory} has several configurations: "
            f"{', '.join(p.name for p in found)}. Leave the one to use."
        )
    if not found:
        return {**_DEFAULT_SETTINGS}, directory
    return read_settings(found[0]), found[0]


def _model(path: Path, settings: dict[str, Any], settings_path: Path) -> Path:
    """Returns the path of the model's file."""
    if not path.is_dir():
        return path
    if "models" in settings:
        return named_files(settings_path, settings, "models", 1)[0]
    found = _models(path)
    if len(found) != 1:
        names = ", ".join(p.name for p in found) or "none"
        raise UserError(
            f"{path} must contain one binary model of Marian (*.bin). Received: {names}"
        )
    return found[0]


def _vocabularies(
    directory: Path, settings: dict[str, Any], settings_path: Path
) -> tuple[Path, Path]:
    """Returns the paths of the source and the target vocabulary."""
    if "vocabs" in settings:
        source, target = named_files(settings_path, settings, "vocabs", 2)
        return source, target
    found = {
        kind: sorted(directory.glob(f"{kind}.*spm"))
        for kind in ("vocab", "srcvocab", "trgvocab")
    }
    counts = [len(paths) for paths in found.values()]
    if counts == [1, 0, 0]:
        return found["vocab"][0], found["vocab"][0]
    if counts == [0, 1, 1]:
        return found["srcvocab"][0], found["trgvocab"][0]
    names = ", ".join(p.name for paths in found.values() for p in paths) or "none"
    raise UserError(
        f"{directory} must contain one vocabulary (vocab.*.spm), or one for each side "
        f"(srcvocab.*.spm and trgvocab.*.spm). Received: {names}"
    )
