"""What the server takes on at once: requests, and bytes held for them."""

import contextlib
import math
from collections.abc import Callable, Iterator

import grpc

from t2t_keras.counted import counted
from t2t_keras.server.memory import READING
from t2t_keras.server.offload import LARGE, SMALL
from t2t_keras.server.serving_errors import ServingError

Hold = Callable[[int], None]
"""Adds bytes to those that a request holds.

Raises:
    ServingError: If all requests together hold too many.
"""


class Admission:
    """Counts requests and the bytes of their messages, tensors and answers.

    Args:
        max_requests: The most requests at once; more are refused.
        max_bytes: The most bytes that they may hold together. Those of a request that
            holds less than 16 KiB are not counted: their number is limited.
        room: Returns how many bytes the process may still take. Default any number.
    """

    def __init__(
        self,
        max_requests: int = 512,
        max_bytes: int = 1 << 30,
        room: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self._room = room
        self._requests = 0
        self._bytes = 0

    @contextlib.contextmanager
    def request(self) -> Iterator[Hold]:
        """Counts a request that has come whole, until it is answered.

        Yields:
            What counts bytes that are held for it.

        Raises:
            ServingError: If there are too many.
        """
        if self._requests >= self.max_requests:
            requests = counted(self.max_requests, "request")
            raise _exhausted(f"More than {requests} at once")
        self._requests += 1
        try:
            with self.bytes() as hold:
                yield hold
        finally:
            self._requests -= 1

    @contextlib.contextmanager
    def bytes(self) -> Iterator[Hold]:
        """Counts bytes that are held until the block ends.

        Yields:
            What adds to them.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            before = held if held >= SMALL else 0
            held += size
            if held < SMALL:
                return
            self._bytes += held - before
            if self._bytes > self.max_bytes:
                raise _exhausted(
                    f"All requests together hold more than {self.max_bytes:,} bytes"
                )
            if self._room() < size:
                raise _exhausted("The server has no more memory")

        try:
            yield hold
        finally:
            if held >= SMALL:
                self._bytes -= held

    def check_reading(self, size: int) -> None:
        """Holds what it takes to read a large message to the memory that is left.

        To be called just before, by the only thread that reads large ones.

        Args:
            size: Bytes of the message.

        Raises:
            ServingError: If there is too little.
        """
        if size >= LARGE and self._room() < READING * size:
            raise _exhausted(
                f"The server has too little memory left to read {size:,} bytes"
            )


def _exhausted(what: str) -> ServingError:
    return ServingError(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{what}; try again later.")
