"""Marks versions whose rows are independent, so that requests can share a batch.

Requests may be joined into one batch only if each output row depends on the same row of
the inputs and on nothing else. A SavedModel does not record this property. Exports of
this project record it in a file of their own; for other models the operator of the
server has to know.

The file also records the padding value of each output. It allows a large request to be
split into several batches, although each batch pads its rows to its own longest row.
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
    """Marks the rows of a version as independent of each other.

    Rows must not depend on anything else either: equal rows have equal outputs.

    Args:
        version_dir: Directory of the version.
        padding: Padding value by name of each output whose rows differ in shape.
    """
    path = Path(version_dir) / _MARK
    path.parent.mkdir(exist_ok=True)
    content = {_KEY: True, _PADDING: dict(padding)}
    path.write_text(f"{json.dumps(content)}\n", encoding="utf-8")


def are_rows_independent(version_dir: str | Path) -> bool:
    """Returns whether a version is marked as having independent rows."""
    return _read_mark(version_dir).get(_KEY) is True


def output_padding(version_dir: str | Path) -> dict[str, Any]:
    """Returns the recorded padding values of a version's outputs.

    Returns:
        Numbers and bytes by output name; empty if none are recorded.
    """
    padding = _read_mark(version_dir).get(_PADDING)
    if not isinstance(padding, dict):
        return {}
    return {
        name: value.encode() if isinstance(value, str) else value
        for name, value in padding.items()
        if isinstance(value, (str, int, float))
    }


def _read_mark(version_dir: str | Path) -> dict[str, Any]:
    try:
        content = json.loads((Path(version_dir) / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
