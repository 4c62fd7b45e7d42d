"""Items grouped as they come, by a thread of their own that reads them."""

import queue
import threading
from collections.abc import Iterable, Iterator


def windows(items: Iterable[str], size: int, wait: bool = False) -> Iterator[list[str]]:
    """Groups items as they come, without making any wait for one that has not come.

    Args:
        items: An iterable that may block.
        size: The most items of a group.
        wait: Whether to wait until a group is full. Default False.

    Raises:
        Exception: What the iterable raises, after the items before it.
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
