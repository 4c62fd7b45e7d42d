"""Which versions may answer requests of several clients in one batch.

Joining requests is right only if each row of an output depends on the same row of the
inputs and on nothing else, which a SavedModel does not say. This project's exports say
it in a file of their own; for others, whoever runs the server has to know.

The file also says what outputs are padded with. Several batches can answer one large
request then, though each pads its rows to the longest of its own.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MARK = Path("assets.extra") / "t2t-keras.json"
_KEY, _PADDING = "rows_are_independent", "padding"


def mark_rows_independent(
    version_dir: str | Path, padding: Mapping[str, str | float]
) -> None:
    """Notes in a version's directory that its rows do not depend on each other.

    Nor do they depend on anything else: equal rows have equal outputs.

    Args:
        version_dir: Directory of the version.
        padding: What fills up those outputs, by name, whose rows differ in shape.
    """
    path = Path(version_dir) / _MARK
    path.parent.mkdir(exist_ok=True)
    noted = {_KEY: True, _PADDING: dict(padding)}
    path.write_text(f"{json.dumps(noted)}\n", encoding="utf-8")


def are_rows_independent(version_dir: str | Path) -> bool:
    """Tells whether a version carries that note."""
    return _noted(version_dir).get(_KEY) is True


def output_padding(version_dir: str | Path) -> dict[str, Any]:
    """Returns what fills up the outputs of a version, as far as it says so.

    Returns:
        Numbers and bytes by name.
    """
    padding = _noted(version_dir).get(_PADDING)
    if not isinstance(padding, dict):
        return {}
    return {
        name: value.encode() if isinstance(value, str) else value
        for name, value in padding.items()
        if isinstance(value, (str, int, float))
    }


def _noted(version_dir: str | Path) -> dict[str, Any]:
    try:
        noted = json.loads((Path(version_dir) / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return noted if isinstance(noted, dict) else {}
