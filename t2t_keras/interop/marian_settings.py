"""Translates Marian's decoder configuration (decoder.yml) into search options."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import yaml

from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.interop.tensors import MAX_SIZE

_IRRELEVANT = {
    *("relative-paths", "version", "log", "log-level", "quiet", "quiet-translation"),
    # Read by the caller.
    *("models", "vocabs"),
    # Speed, memory and numbers of threads.
    *("mini-batch", "mini-batch-words", "maxi-batch", "maxi-batch-sort", "workspace"),
    *("cpu-threads", "num-devices", "devices", "optimize", "gemm-type", "precision"),
    *("gemm-precision", "skip-loading", "model-mmap", "use-legacy-batching", "fp16"),
    *("cache-size", "cache-mutex-buckets", "max-workers"),
    # Proposes fewer words to an engine that is bound by its output layer.
    "shortlist",
    # Input, and what an output contains besides the text.
    *("input", "output", "alignment", "word-scores", "n-best", "no-spm-decode"),
    *("ssplit-prefix-file", "ssplit-mode", "max-length-break", "port", "skip-cost"),
    "bergamot-mode",
    # Longer sentences are cut where --max_input_tokens says.
    *("max-length", "max-length-crop"),
}
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "word-penalty": (0,),
    "weights": (),
    "output-sampling": (False, []),
    "force-decode": (False,),
    "best-deep": (False,),
    "n-best-feature": (),
}
"""Values without effect, of settings that have no counterpart here."""

_NUMBERS = {"beam-size": 12, "normalize": 0.0, "max-length-factor": 3.0}
"""Marian's defaults of the settings that have a counterpart here."""

_DAMAGES = (
    *(yaml.YAMLError, RecursionError),
    # From invalid dates and numbers.
    *(ValueError, LookupError, AttributeError),
)
"""What PyYAML raises for damaged texts."""


class _RepeatedKey(ValueError):
    """A key that occurs twice."""


class _UniqueKeyLoader(yaml.SafeLoader):
    """Rejects mappings with a key that occurs twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            # Keys such as `yes` and `true` are equal.
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in keys:
                raise _RepeatedKey(key_node.value)
            keys |= {key} if isinstance(key, Hashable) else set()
        return super().construct_mapping(node, deep)


def parse_yaml(content: bytes, origin: str) -> dict[str, Any]:
    """Parses a mapping in YAML.

    Args:
        content: The text.
        origin: Where it comes from, for messages.

    Raises:
        UserError: If the text is not valid.
    """
    try:
        # Aliases can make a small file expand to more than the memory.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(content)):
            raise UserError(f"{origin}: aliases in YAML are not supported.")
        found = yaml.load(content, _UniqueKeyLoader)
    except UserError:
        raise
    except _RepeatedKey as error:
        raise UserError(f"{origin}: the key {str(error)!r} occurs twice.") from error
    except _DAMAGES as error:
        raise UserError(f"{origin} is damaged: it is not valid YAML.") from error
    if not isinstance(found, dict):
        raise UserError(f"{origin} is damaged: it contains no settings.")
    return found


def read_settings(path: Path) -> dict[str, Any]:
    """Returns the content of a decoder configuration.

    Raises:
        UserError: If the file cannot be read or is not valid.
    """
    with user_path(path, "read"):
        content = path.read_bytes()
    return parse_yaml(content, str(path))


def named_files(
    path: Path, settings: Mapping[str, Any], name: str, number: int
) -> list[Path]:
    """Returns the files that a decoder configuration names.

    Args:
        path: The configuration; files lie in its directory.
        settings: Its content.
        name: "models" or "vocabs".
        number: How many files there must be.

    Raises:
        UserError: If their number is another, or a file lies in another directory or
            does not exist.
    """
    names = settings.get(name)
    if (
        not isinstance(names, list)
        or len(names) != number
        or not all(isinstance(each, str) for each in names)
    ):
        raise UserError(
            f"{path}: {name} must be a list of {number} file names. Received: {names!r}"
        )
    files = [path.parent / each for each in names]
    for file, each in zip(files, names, strict=True):
        parts = Path(each).parts
        is_outside = Path(each).is_absolute() or ".." in parts or not parts
        if is_outside or not each.isprintable():
            raise UserError(
                f"{path}: {name} must be files in the directory of the configuration. "
                f"Received: {each!r}"
            )
        with user_path(file, "read"):
            file.stat()
    return files


def search_options(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Returns the search options with the effect of a decoder configuration.

    Marian's defaults apply to missing settings.

    Args:
        settings: Content of decoder.yml.
        path: The file, for messages.

    Raises:
        UserError: If a setting is unknown, or has a value without a counterpart.
    """
    for name, value in settings.items():
        if name in _NEUTRAL:
            if value not in _NEUTRAL[name]:
                raise UserError(f"{path}: {name}={value!r} is not supported.")
        elif name == "allow-unk":
            if type(value) is not bool:
                raise UserError(f"{path}: {name}={value!r} is not supported.")
        elif name not in _IRRELEVANT and name not in _NUMBERS:
            raise UserError(f"{path}: {name}={value!r} is not supported.")
    numbers = {name: settings.get(name, default) for name, default in _NUMBERS.items()}
    for name, value in numbers.items():
        kinds = (int,) if name == "beam-size" else (int, float)
        if type(value) not in kinds or not 0 <= value <= MAX_SIZE:
            raise UserError(f"{path}: {name}={value!r} is not supported.")
    return {
        "beam_size": numbers["beam-size"],
        # |Y|^normalize.
        "length_penalty": float(numbers["normalize"]),
        "length_penalty_beta": 0.0,
        "max_length_factor": float(numbers["max-length-factor"]),
        "max_extra_length": 1,
        "disable_unk": settings.get("allow-unk", False) is not True,
    }
