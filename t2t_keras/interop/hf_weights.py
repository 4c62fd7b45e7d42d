"""Reads the weights of a Hugging Face model directory."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.interop.safetensors_file import read_safetensors
from t2t_keras.json_file import read_object

_SAFETENSORS, _TORCH = "model.safetensors", "pytorch_model.bin"


def read_weights(directory: Path) -> dict[str, np.ndarray]:
    """Reads all tensors of a model.

    They are in `model.safetensors`, in several such files listed by
    `model.safetensors.index.json`, or in `pytorch_model.bin`, in this order of
    preference.

    Args:
        directory: The model directory.

    Returns:
        The tensors by name, in their stored dtype.

    Raises:
        UserError: If there are no weights, a file is damaged, or reading it needs
            PyTorch, which is not installed.
    """
    for name, read in ((_SAFETENSORS, read_safetensors), (_TORCH, _read_torch)):
        if (directory / name).is_file():
            return read(directory / name)
        index = directory / f"{name}.index.json"
        if index.is_file():
            parts = [read(directory / part) for part in _shards(index)]
            return {key: part[key] for part in parts for key in part}
    raise UserError(f"{directory} has no weights ({_SAFETENSORS} or {_TORCH}).")


def _shards(index: Path) -> list[str]:
    """Returns the names of the weight files that an index lists."""
    listed = read_object(index, ["weight_map"])["weight_map"]
    names: list[Any] = list(listed.values()) if isinstance(listed, dict) else [None]
    for name in names:
        # A path could lead out of the directory.
        is_name = isinstance(name, str) and name.isprintable()
        if not is_name or Path(name).name != name or name in ("", ".."):
            raise UserError(
                f"{index}: weight_map must contain names of files in the same "
                f"directory. Received: {name!r}"
            )
    return sorted({*names})


def _read_torch(path: Path) -> dict[str, np.ndarray]:
    # PyTorch is in no extra: most models have safetensors, and it is large.
    if importlib.util.find_spec("torch") is None:
        raise UserError(
            f"{path} can only be read with PyTorch, which is not installed. Where it "
            f'is, write {_SAFETENSORS} beside it: python -c "import torch, '
            "safetensors.torch as s; s.save_file({k: v.clone() for k, v in "
            f"torch.load('{_TORCH}', weights_only=True).items()}}, '{_SAFETENSORS}')\""
        )
    torch = importlib.import_module("torch")
    with user_path(path, "read"):
        path.open("rb").close()
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensor.float().numpy() for name, tensor in loaded.items()}
    except Exception as error:  # pickle, zipfile and PyTorch raise many types.
        message = str(error).strip().partition("\n")[0]
        raise UserError(f"{path} is damaged or not safe to load: {message}") from error
