"""What a server answers instead of a result."""

import grpc
import tensorflow as tf

_MOST = 1000
_NO_NEWS = "Graph execution error:"
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class ServingError(Exception):
    """A request that cannot be answered.

    Attributes:
        code: The status that the client is given; REST derives its own from it.
        message: What is wrong, and what to do.
    """

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        # What a client sent may be told back, and headers have room for little.
        self.message = message if len(message) <= _MOST else f"{message[:_MOST]} ..."
        super().__init__(self.message)
        self.code = code

    @classmethod
    def of(cls, error: Exception) -> "ServingError":
        """Returns the status of whatever a model raised."""
        if isinstance(error, cls):
            return error
        if isinstance(error, tf.errors.OpError):
            # The first line that says something; the rest is where in the graph.
            lines = (line.strip() for line in error.message.splitlines())
            told = [line for line in lines if line and line != _NO_NEWS]
            return cls(_CODES[error.error_code], told[0] if told else "")
        return cls(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")


def invalid(message: str) -> ServingError:
    """Returns the error for a request that is wrong in itself."""
    return ServingError(grpc.StatusCode.INVALID_ARGUMENT, message)
