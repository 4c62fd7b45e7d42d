"""What a server answers instead of a result."""

import itertools
from collections.abc import Collection
from typing import Any

import grpc
import tensorflow as tf

_MOST_BYTES = 1000
"""Of a message: headers have room for little."""
_MOST_READ = 10_000
_MOST_SHOWN, _MOST_CHARACTERS = 10, 100
_NO_NEWS = "Graph execution error:"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class ServingError(Exception):
    """A request that cannot be answered.

    Attributes:
        code: The status that the client is given; REST derives its own from it.
        message: What is wrong, and what to do.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        # What a client sent may be told back.
        start = message[:_MOST_BYTES].encode("utf-8", "replace")[:_MOST_BYTES]
        cut = start.decode("utf-8", "ignore")
        self.message = message if cut == message else f"{cut} ..."
        super().__init__(self.message)
        self.code = code

    @property
    def told(self) -> tuple[grpc.StatusCode, str]:
        """What a client is told."""
        return self.code, self.message

    @classmethod
    def of(cls, error: Exception) -> "ServingError":
        """Returns the status of whatever a model raised."""
        if isinstance(error, cls):
            return error
        if isinstance(error, tf.errors.OpError):
            # The first line that says something; the rest is where in the graph. A
            # model may quote a whole input.
            lines = map(str.strip, error.message[:_MOST_READ].splitlines())
            told = [line for line in lines if line and line != _NO_NEWS]
            message = told[0] if told else ""
            if isinstance(error, tf.errors.ResourceExhaustedError):
                message = (
                    f"The server has too little memory for this request: {message}"
                )
            return cls(_CODES[error.error_code], message)
        return cls(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")


def invalid(message: str) -> ServingError:
    """Returns the error for a request that is wrong in itself."""
    return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)


def too_large_answer(max_bytes: int) -> ServingError:
    """Returns the error for a request whose answer takes more bytes than allowed."""
    return invalid(
        f"The answer takes more than {max_bytes:,} bytes (--max_response_bytes). Send "
        "fewer rows at once, or ask for fewer outputs."
    )


def shown(values: Collection[Any]) -> str:
    """Returns the first values of a client's for a message, each of them cut."""
    parts = []
    for value in itertools.islice(values, _MOST_SHOWN):
        part = repr(value[:_MOST_CHARACTERS] if isinstance(value, str) else value)
        parts.append(part)
    more = len(values) - len(parts)
    return f"[{', '.join(parts)}{f', and {more:,} more' if more else ''}]"
