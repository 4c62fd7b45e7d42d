"""JSON files that this project wrote, and that may have been damaged since."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.files import user_path


def read_object(
    path: str | Path, keys: Iterable[str] = (), todo: str = ""
) -> dict[str, Any]:
    """Reads a file that holds a JSON object.

    Args:
        path: The file.
        keys: Keys that the object must have.
        todo: What the message tells the user to do about a damaged file. Default
            nothing.

    Raises:
        UserError: If the file cannot be read, is damaged, or lacks a key.
    """
    with user_path(path, "read"):
        content = Path(path).read_bytes()
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:  # Invalid UTF-8 among them.
        raise _damaged(path, str(error), todo) from error
    if not isinstance(found, dict):
        raise _damaged(path, "it holds no JSON object", todo)
    require_keys(path, found, keys, todo)
    return found


def require_keys(
    path: str | Path, found: dict[str, Any], keys: Iterable[str], todo: str = ""
) -> None:
    """Raises a `UserError` as `read_object` does if the object of a file lacks keys."""
    if missing := [key for key in keys if key not in found]:
        raise _damaged(path, f"it lacks {', '.join(map(repr, missing))}", todo)


def _damaged(path: str | Path, reason: str, todo: str) -> UserError:
    return UserError(f"{path} is damaged: {reason}. {todo}".rstrip())
