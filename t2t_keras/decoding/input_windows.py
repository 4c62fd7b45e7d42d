"""Groups the items of a blocking iterable, which a separate thread reads."""

import queue
import threading
from collections.abc import Iterable, Iterator


def windows(items: Iterable[str], size: int, wait: bool = False) -> Iterator[list[str]]:
    """Yields all items that have arrived as a group, without waiting for more.

    Args:
        items: An iterable that may block.
        size: Maximum number of items in a group.
        wait: Whether to wait until a group is full. Default False.

    Yields:
        Non-empty groups, in order.

    Raises:
        Exception: An exception of the iterable, after the items before it.
    """
    arrived: queue.Queue[str | None] = queue.Queue(maxsize=size)
    failure: list[Exception] = []

    def read() -> None:
        try:
            for item in items:
                arrived.put(item)
        except Exception as error:
            failure.append(error)
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    ended = False
    while not ended:
        pending: list[str] = []
        item = arrived.get()
        while item is not None:
            pending.append(item)
            if len(pending) == size:
                break
            try:
                item = arrived.get(block=wait)
            except queue.Empty:
                break
        ended = item is None
        if pending:
            yield pending
    if failure:
        raise failure[0]
