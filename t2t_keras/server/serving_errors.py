"""Errors that a server returns to clients."""

import itertools
from collections.abc import Collection
from typing import Any

import grpc
import tensorflow as tf

_MAX_BYTES = 1000
"""Maximum size of a message: gRPC sends it in a header."""
_MAX_READ = 10_000
_MAX_SHOWN, _MAX_CHARACTERS = 10, 100
_GENERIC_LINE = "Graph execution error:"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class ServingError(Exception):
    """A request that failed.

    Attributes:
        code: gRPC status for the client; REST derives its own from it.
        message: Describes the problem and what to do.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        # Messages may quote what a client sent.
        start = message[:_MAX_BYTES].encode("utf-8", "replace")[:_MAX_BYTES]
        cut = start.decode("utf-8", "ignore")
        self.message = message if cut == message else f"{cut} ..."
        super().__init__(self.message)
        self.code = code

    @property
    def details(self) -> tuple[grpc.StatusCode, str]:
        """Status code and message for the client."""
        return self.code, self.message

    @classmethod
    def of(cls, error: Exception) -> "ServingError":
        """Converts any exception to a `ServingError`."""
        if isinstance(error, cls):
            return error
        if isinstance(error, tf.errors.OpError):
            # The first informative line; the others locate it in the graph. A model may
            # quote a whole input.
            lines = map(str.strip, error.message[:_MAX_READ].splitlines())
            informative = [line for line in lines if line and line != _GENERIC_LINE]
            message = informative[0] if informative else ""
            if isinstance(error, tf.errors.ResourceExhaustedError):
                message = (
                    f"The server has too little memory for this request: {message}"
                )
            return cls(_CODES[error.error_code], message)
        return cls(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")


def invalid(message: str) -> ServingError:
    """Returns the error for an invalid request."""
    return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)


def too_large_response(max_bytes: int) -> ServingError:
    """Returns the error for a request whose response is too large."""
    return invalid(
        f"The response takes more than {max_bytes:,} bytes (--max_response_bytes). "
        "Send fewer rows per request or request fewer outputs."
    )


def abbreviated(values: Collection[Any]) -> str:
    """Formats a client's values for a message, truncated."""
    parts = []
    for value in itertools.islice(values, _MAX_SHOWN):
        part = repr(value[:_MAX_CHARACTERS] if isinstance(value, str) else value)
        parts.append(part)
    more = len(values) - len(parts)
    return f"[{', '.join(parts)}{f', and {more:,} more' if more else ''}]"
