"""Which versions may answer requests of several clients in one batch.

Joining requests is right only if each row of an output depends on the same row of the
inputs and on nothing else, which a SavedModel does not say. This project's exports say
it in a file of their own; for others, whoever runs the server has to know.
"""

import json
from pathlib import Path

_MARK = Path("assets.extra") / "t2t-keras.json"
_KEY = "rows_are_independent"


def mark_rows_independent(version_dir: str | Path) -> None:
    """Notes in a version's directory that its rows do not depend on each other."""
    path = Path(version_dir) / _MARK
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{json.dumps({_KEY: True})}\n", encoding="utf-8")


def are_rows_independent(version_dir: str | Path) -> bool:
    """Tells whether a version carries that note."""
    try:
        noted = json.loads((Path(version_dir) / _MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(noted, dict) and noted.get(_KEY) is True
