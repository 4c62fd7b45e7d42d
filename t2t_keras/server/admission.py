"""Admission control: limits on concurrent requests and on the bytes they hold."""

import contextlib
import math
from collections.abc import Callable, Iterator

import grpc

from t2t_keras.plurals import counted
from t2t_keras.server.memory_budget import PARSING_FACTOR
from t2t_keras.server.serving_errors import ServingError
from t2t_keras.server.thread_offload import LARGE, SMALL
from t2t_keras.server_limits import MAX_CONCURRENT_REQUESTS

Hold = Callable[[int], None]
"""Adds a number of bytes to those that a request holds.

Raises:
    ServingError: If all requests together hold too many bytes.
"""


class Admission:
    """Counts requests and the bytes of their messages, tensors and responses.

    Args:
        max_requests: Maximum number of concurrent requests; more are rejected.
        max_bytes: Maximum number of bytes that all requests hold together. Requests
            that hold less than 16 KiB do not count: `max_requests` limits them.
        available_bytes: Returns how many more bytes the process may allocate. Default
            no limit.
    """

    def __init__(
        self,
        max_requests: int = MAX_CONCURRENT_REQUESTS,
        max_bytes: int = 1 << 30,
        available_bytes: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.max_requests = max_requests
        self.max_bytes = max_bytes
        self._available_bytes = available_bytes
        self._requests = 0
        self._bytes = 0

    @contextlib.contextmanager
    def request(self) -> Iterator[Hold]:
        """Counts a fully received request until the block ends.

        Yields:
            Function that counts bytes held for the request.

        Raises:
            ServingError: If there are too many requests.
        """
        if self._requests >= self.max_requests:
            requests = counted(self.max_requests, "request")
            raise _exhausted(f"More than {requests} at a time")
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
            Function that adds to the held bytes.
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
            if self._available_bytes() < size:
                raise _exhausted("The server has no more memory")

        try:
            yield hold
        finally:
            if held >= SMALL:
                self._bytes -= held

    def check_parsing(self, size: int) -> None:
        """Checks that the remaining memory is enough to parse a large message.

        Call it right before parsing, from the only thread that parses large messages.

        Args:
            size: Size of the message in bytes.

        Raises:
            ServingError: If there is too little memory.
        """
        if size >= LARGE and self._available_bytes() < PARSING_FACTOR * size:
            raise _exhausted(
                f"The server has too little memory left to parse {size:,} bytes"
            )


def _exhausted(problem: str) -> ServingError:
    return ServingError(
        grpc.StatusCode.RESOURCE_EXHAUSTED, f"{problem}; try again later."
    )
