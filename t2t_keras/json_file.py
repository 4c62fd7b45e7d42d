"""Reads JSON files written by this project and reports damaged ones."""

import collections
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files import user_path


def read_object(
    path: str | Path, keys: Iterable[str] = (), todo: str = ""
) -> dict[str, Any]:
    """Reads a JSON object from a file.

    Args:
        path: The file.
        keys: Required keys of the object. Default none.
        todo: Advice for the user in the message about a damaged file. Default none.

    Raises:
        UserError: If the file cannot be read, is damaged, or lacks a key.
    """
    with user_path(path, "read"):
        content = Path(path).read_bytes()
    try:
        found = json.loads(content, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:  # Includes invalid UTF-8.
        raise _damaged(path, str(error), todo) from error
    if not isinstance(found, dict):
        raise _damaged(path, "it holds no JSON object", todo)
    require_keys(path, found, keys, todo)
    return found


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the pairs of a JSON object as a dictionary, for `json.loads`.

    Raises:
        ValueError: If a key occurs twice. Programs differ in which value they use.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = collections.Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def require_keys(
    path: str | Path, found: dict[str, Any], keys: Iterable[str], todo: str = ""
) -> None:
    """Checks that an object has all required keys; see `read_object`."""
    if missing := [key for key in keys if key not in found]:
        raise _damaged(path, f"it lacks {', '.join(map(repr, missing))}", todo)


def _damaged(path: str | Path, reason: str, todo: str) -> UserError:
    return UserError(f"{path} is damaged: {reason}. {todo}".rstrip())
