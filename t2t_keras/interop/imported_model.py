"""A model read from another framework's files, and the model directory made of it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.data.new_directory import new_directory
from t2t_keras.data.prepared_data import TOKENIZER_DIR
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
from t2t_keras.layers.initializers import zero_initialization
from t2t_keras.model_dir_files import CONFIG, FORMAT, IMPORTED_WEIGHTS
from t2t_keras.training.weight_files import save_arrays
from t2t_keras.transformer import Transformer


class Origin(NamedTuple):
    """Where an imported model comes from, for `config.json` and model cards.

    Attributes:
        format: Name of the format, a key of `FORMATS`.
        name: Name of the file or directory, without its path.
        source_lang: Source language, such as "en"; "und" if the files do not tell.
        target_lang: Target language; "und" if the files do not tell.
    """

    format: str
    name: str
    source_lang: str = "und"
    target_lang: str = "und"


class ImportedModel(NamedTuple):
    """What a reader of another framework's files returns.

    Attributes:
        config: The configuration, with vocabulary sizes.
        arrays: The weights by variable path, such as
            "transformer/encoder/layer_0/feed_forward/inner/kernel": one float32 array
            per trainable variable of `Transformer(config)`.
        tokenizers: The tokenizers.
        search: Values of `SearchOptions` that the model is used with, where they differ
            from the defaults.
        origin: Where the model comes from.
    """

    config: TransformerConfig
    arrays: dict[str, np.ndarray]
    tokenizers: TokenizerPair
    search: dict[str, Any]
    origin: Origin


def check_size(config: TransformerConfig, available: int, path: Path) -> None:
    """Checks that a file can contain the weights of a configuration.

    Called before anything of the size of the weights is allocated, so that a damaged
    configuration cannot exhaust the memory.

    Args:
        config: The configuration, with vocabulary sizes.
        available: Number of weights in the file.
        path: The file, for the message.

    Raises:
        UserError: If the configuration has more weights than the file.
    """
    sizes = config.vocab_sizes()
    layers = sum(config.depths())
    needed = config.d_model * (
        sizes[1]
        + layers * 2 * config.d_ff
        + (0 if config.share_embeddings else sizes[0])
    )
    if needed > available:
        raise UserError(
            f"{path} has {available:,} weights, but the configuration needs at least "
            f"{needed:,}: the file is truncated or belongs to another model."
        )


def write_model_dir(imported: ImportedModel, model_dir: str | Path) -> None:
    """Writes a model directory completely or not at all.

    Args:
        imported: The model.
        model_dir: The directory, new or empty.

    Raises:
        UserError: If a weight is missing, superfluous, has the wrong shape or is not
            finite; the vocabulary sizes differ from those of the tokenizers; a search
            option is invalid; or the directory is not empty or not writable.
    """
    try:
        search = SearchOptions.from_dict(imported.search).to_dict()
    except UserError as error:
        raise UserError(f"{imported.origin.name}: {error}") from error
    defaults = SearchOptions().to_dict()
    changed = {name: v for name, v in search.items() if v != defaults[name]}
    arrays = _checked_arrays(imported)
    training, run = TrainingConfig(search=changed).sections()
    config = {
        "format": FORMAT,
        "model": imported.config.to_dict(),
        "training": training,
        "run": run,
        "data": _manifest(imported),
    }
    taken = (
        f"Another process is writing {model_dir}. Wait for it, or choose another "
        "--model_dir."
    )
    with new_directory(model_dir, CONFIG, taken) as work_dir:
        imported.tokenizers.save(work_dir / TOKENIZER_DIR)
        save_arrays(work_dir / IMPORTED_WEIGHTS, arrays)
        (work_dir / CONFIG).write_text(
            f"{json.dumps(config, indent=2)}\n", encoding="utf-8"
        )


def _checked_arrays(imported: ImportedModel) -> dict[str, np.ndarray]:
    """Returns the value of each variable, for the weight file."""
    sizes = imported.config.vocab_sizes()
    tokenizers = imported.tokenizers
    found = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    if sizes != found:
        raise UserError(
            f"{imported.origin.name}: the model has {sizes[0]:,} source and "
            f"{sizes[1]:,} target tokens, its vocabulary {found[0]:,} and {found[1]:,}."
        )
    with zero_initialization():
        model = Transformer(imported.config, dtype="float32")
    remaining = dict(imported.arrays)
    arrays = {}
    for variable in model.variables:
        shape = tuple(variable.shape)
        if not variable.trainable:  # Counters for dropout.
            arrays[variable.path] = np.zeros(shape, variable.dtype)
            continue
        array = remaining.pop(variable.path, None)
        if array is None or array.shape != shape:
            received = "nothing" if array is None else f"shape {array.shape}"
            raise UserError(
                f"{imported.origin.name}: the weights of {variable.path} must have "
                f"shape {shape}. Received: {received}"
            )
        if not np.isfinite(array).all():
            raise UserError(
                f"{imported.origin.name}: {variable.path} has non-finite weights."
            )
        arrays[variable.path] = array.astype(np.float32)
    if remaining:
        raise UserError(
            f"{imported.origin.name}: the model has no variables for the weights "
            f"{', '.join(sorted(remaining))}."
        )
    return arrays


def _manifest(imported: ImportedModel) -> dict[str, Any]:
    """Returns the "data" section of config.json, in the format of t2t-prepare."""
    origin = imported.origin
    return {
        "corpus": f"{origin.format}:{origin.name}",
        "corpus_arguments": {},
        "source_lang": origin.source_lang,
        "target_lang": origin.target_lang,
        **imported.tokenizers.description(),
        "splits": {},
    }
