"""Presets of translators: directories in keras-hub's format, local or on a hub.

config.json                 the model, as a serialized Keras object
model.weights.h5            the weights
metadata.json               versions, number of parameters, date
translator.json             search options and maximum input length
assets/tokenizer/           the vocabularies

`keras_hub.upload_preset("hf://user/name", directory)` publishes a preset.
"""

import dataclasses
import json
from pathlib import Path
from typing import NamedTuple

from t2t_keras.data.new_directory import new_directory
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
from t2t_keras.layers.initializers import zero_initialization
from t2t_keras.layers.linear import frozen_weights
from t2t_keras.optional_packages import require_extra
from t2t_keras.transformer import Transformer

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_TRANSLATOR = "translator.json"
_TOKENIZER = "assets/tokenizer"
_CLIENTS = {"hf": "huggingface_hub", "kaggle": "kagglehub"}
"""The client package of each hub, by the scheme of a handle."""


class Pretrained(NamedTuple):
    """The contents of a preset.

    Attributes:
        model: The model with its weights.
        tokenizers: The tokenizers that it was trained with.
        options: Default search options.
        max_input_tokens: Maximum number of tokens of a sentence; longer ones are
            truncated.
    """

    model: Transformer
    tokenizers: TokenizerPair
    options: SearchOptions
    max_input_tokens: int


def save_preset(directory: str | Path, pretrained: Pretrained) -> None:
    """Writes a preset directory, completely or not at all.

    Args:
        directory: A new or empty directory.
        pretrained: The contents.

    Raises:
        UserError: If the directory is not empty or cannot be written to.
    """
    from keras_hub.src.utils.preset_utils import get_preset_saver

    taken = f"Another process is writing to {directory}."
    with new_directory(directory, last=_CONFIG, taken=taken) as content:
        # All weights in a single file, regardless of their size.
        get_preset_saver(str(content)).save_backbone(
            pretrained.model, max_shard_size=None
        )
        pretrained.tokenizers.save(content / _TOKENIZER)
        translator = {
            "search": dataclasses.asdict(pretrained.options),
            "max_input_tokens": pretrained.max_input_tokens,
        }
        (content / _TRANSLATOR).write_text(
            f"{json.dumps(translator, indent=4)}\n", encoding="utf-8"
        )


def load_preset(
    preset: str | Path, dtype: str | None = None, frozen: bool = False
) -> Pretrained:
    """Reads a preset from a directory or a hub.

    Args:
        preset: A directory, "hf://user/name" (Hugging Face) or
            "kaggle://user/model/keras/variant[/version]".
        dtype: Dtype policy of the model, such as "mixed_bfloat16". Default: the
            policy stored in the preset.
        frozen: True if the weights will never change, in a process in which oneDNN
            assumes that (`t2t_keras.runtime.assumes_frozen_weights`). Default False.

    Raises:
        UserError: If there is no such preset, or a file is missing or damaged.
        MissingExtra: If the package that downloads from that hub is not installed.
    """
    from keras_hub.src.utils.preset_utils import get_preset_loader

    directory = _fetch(str(preset))
    try:
        config = json.loads((directory / _CONFIG).read_text(encoding="utf-8"))
        name = config["registered_name"]
        if name != "t2t_keras>Transformer":
            raise UserError(
                f"{preset} must be a preset of a Translator. Received: a preset of "
                f"{name}"
            )
        saved = json.loads((directory / _TRANSLATOR).read_text(encoding="utf-8"))
        options = SearchOptions(**saved["search"])
        tokenizers = TokenizerPair.load(directory / _TOKENIZER)
        with zero_initialization(), frozen_weights(frozen):
            model = get_preset_loader(str(directory)).load_backbone(
                Transformer, load_weights=True, dtype=dtype or config["config"]["dtype"]
            )
    except UserError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"The preset {preset} is damaged or was written by another version of "
            "t2t_keras: "
            f"{_line(error)}"
        ) from error
    return Pretrained(model, tokenizers, options, saved["max_input_tokens"])


def _fetch(preset: str) -> Path:
    """Returns the local directory of a preset; downloads the files of a handle."""
    scheme, is_handle, _ = preset.partition("://")
    if not is_handle and not Path(preset).is_dir():
        raise UserError(
            "preset must be an existing directory, hf://user/name or "
            f"kaggle://user/model/keras/variant. Received: {preset}"
        )
    if is_handle and scheme not in _CLIENTS:
        raise UserError(
            "preset must be an existing directory, hf://user/name or "
            f"kaggle://user/model/keras/variant. Received: {preset}"
        )
    if is_handle:
        require_extra("hub", f"The preset {preset}", _CLIENTS[scheme])
    elif (Path(preset) / "checkpoints").is_dir():
        raise UserError(
            f"preset must not be a model directory. Received: {preset}. Write a preset "
            "with "
            f"t2t_keras.model_dir.ModelDir({preset!r}).translator().save_to_preset(DIR)"
        )
    else:
        # A relative path could be the name of one of keras-hub's own presets.
        preset = str(Path(preset).absolute())
    directory = _file(preset, _CONFIG).parent
    for name in (_WEIGHTS, _TRANSLATOR):
        _file(preset, name)
    index = _file(preset, f"{_TOKENIZER}/tokenizer.json")
    try:
        names = json.loads(index.read_text(encoding="utf-8"))["models"]
    except (ValueError, KeyError) as error:
        raise UserError(f"{preset}: {index.name} is damaged: {_line(error)}") from error
    for name in names:
        _file(preset, f"{_TOKENIZER}/{name}.model")
    return directory


def _file(preset: str, name: str) -> Path:
    """Returns the local path of a file, which is downloaded unless it is cached."""
    from huggingface_hub.errors import RepositoryNotFoundError
    from keras_hub.src.utils.preset_utils import get_file

    try:
        return Path(get_file(preset, name))
    except FileNotFoundError as error:
        raise UserError(
            f"{preset} is not a preset of a Translator: {name} is missing or cannot be "
            f"downloaded: {_line(error.__cause__ or error)}"
        ) from error
    except (ValueError, RepositoryNotFoundError) as error:
        raise UserError(f"{preset} cannot be downloaded: {_line(error)}") from error


def _line(error: BaseException) -> str:
    """Returns the message of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__
