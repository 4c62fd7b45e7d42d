"""Messages to the user, on standard error."""

import contextlib
import sys
from typing import Any


def report(message: str) -> None:
    """Prints a message to standard error, separate from results.

    A message that cannot be written is dropped. A full disk or a closed terminal should
    not end training.
    """
    with contextlib.suppress(OSError):
        print(message, file=sys.stderr, flush=True)


def describe(**items: Any) -> str:
    """Formats names and values for a line of a report: "a 1, b 2"."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else f"{name.replace('_', ' ')} {value}"
        for name, value in items.items()
    )
