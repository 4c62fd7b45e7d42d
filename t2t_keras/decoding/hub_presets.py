"""A translator as a preset: a directory in the format of keras-hub, or one on a hub.

config.json                 the model, as a serialized Keras object
model.weights.h5            its weights
metadata.json               versions, number of parameters, date
translator.json             how to search
assets/tokenizer/           the vocabularies

`keras_hub.upload_preset("hf://user/name", directory)` publishes it.
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
from t2t_keras.optional_packages import require_extra
from t2t_keras.transformer import Transformer

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_TRANSLATOR = "translator.json"
_TOKENIZER = "assets/tokenizer"
_CLIENTS = {"hf": "huggingface_hub", "kaggle": "kagglehub"}
"""The package that fetches files, by the scheme of a handle."""


class Pretrained(NamedTuple):
    """What a preset holds.

    Attributes:
        model: The model with its weights.
        tokenizers: The tokenizers that it was trained with.
        options: How to search unless a user says otherwise.
        max_input_tokens: A longer sentence is cut after this many tokens.
    """

    model: Transformer
    tokenizers: TokenizerPair
    options: SearchOptions
    max_input_tokens: int


def save_preset(directory: str | Path, pretrained: Pretrained) -> None:
    """Writes a preset directory, whole or not at all.

    Args:
        directory: A directory that is new or empty.
        pretrained: What to write.

    Raises:
        UserError: If the directory is not empty or cannot be written to.
    """
    from keras_hub.src.utils.preset_utils import get_preset_saver

    taken = f"Another process is writing to {directory}."
    with new_directory(directory, last=_CONFIG, taken=taken) as content:
        # Weights in a single file, whatever their size.
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


def load_preset(preset: str | Path, dtype: str | None = None) -> Pretrained:
    """Reads a preset from a directory or a hub.

    Args:
        preset: A directory, "hf://user/name" (Hugging Face) or
            "kaggle://user/model/keras/variant[/version]".
        dtype: Dtype policy of the model, such as "mixed_bfloat16". Default: the one
            that it was saved with.

    Raises:
        UserError: If there is no such preset, it lacks a file, or a file is damaged.
        MissingExtra: If the package that fetches files of that hub is not installed.
    """
    from keras_hub.src.utils.preset_utils import get_preset_loader

    directory = _fetch(str(preset))
    try:
        config = json.loads((directory / _CONFIG).read_text(encoding="utf-8"))
        name = config["registered_name"]
        if name != "t2t_keras>Transformer":
            raise UserError(f"{preset} is a preset of {name}, not of a Translator.")
        saved = json.loads((directory / _TRANSLATOR).read_text(encoding="utf-8"))
        options = SearchOptions(**saved["search"])
        tokenizers = TokenizerPair.load(directory / _TOKENIZER)
        with zero_initialization():
            model = get_preset_loader(str(directory)).load_backbone(
                Transformer, load_weights=True, dtype=dtype or config["config"]["dtype"]
            )
    except UserError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"The preset {preset} is damaged, or of another version of t2t_keras: "
            f"{_line(error)}"
        ) from error
    return Pretrained(model, tokenizers, options, saved["max_input_tokens"])


def _fetch(preset: str) -> Path:
    """Returns the local directory of a preset, after fetching its files if need be."""
    scheme, is_handle, _ = preset.partition("://")
    if not is_handle and not Path(preset).is_dir():
        raise UserError(
            f"There is no directory {preset}. A preset is a directory, hf://user/name "
            "or kaggle://user/model/keras/variant."
        )
    if is_handle and scheme not in _CLIENTS:
        raise UserError(
            f"A preset is a directory, hf://user/name or "
            f"kaggle://user/model/keras/variant. Received: {preset}"
        )
    if is_handle:
        require_extra("hub", f"The preset {preset}", _CLIENTS[scheme])
    elif (Path(preset) / "checkpoints").is_dir():
        raise UserError(
            f"{preset} is a model directory, not a preset. To write a preset: "
            f"t2t_keras.model_dir.ModelDir({preset!r}).translator().save_to_preset(DIR)"
        )
    else:
        # The name of a directory may be that of a preset of keras-hub's own.
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
    """Returns the local path of a file, which a hub's client fetches or has kept."""
    from huggingface_hub.errors import RepositoryNotFoundError
    from keras_hub.src.utils.preset_utils import get_file

    try:
        return Path(get_file(preset, name))
    except FileNotFoundError as error:
        raise UserError(
            f"{preset} is not the preset of a Translator: {name} is missing, or cannot "
            f"be fetched: {_line(error.__cause__ or error)}"
        ) from error
    except (ValueError, RepositoryNotFoundError) as error:
        raise UserError(f"{preset} cannot be fetched: {_line(error)}") from error


def _line(error: BaseException) -> str:
    """Returns the message of an error as one line."""
    return " ".join(str(error).split()) or type(error).__name__
