"""Retries of failed requests, within a timeout."""

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from t2t_keras.client.responses import RequestError
from t2t_keras.errors import UserError

MAX_RETRIES = 4
MAX_BACKOFF = 10.0
"""Seconds. A longer Retry-After of the server is honored."""

_MIN_BACKOFF = 0.01
"""Seconds. A busy server must not be retried without a pause."""

Response = TypeVar("Response")


class Retrying:
    """Repeats requests that may succeed later; see `RequestError.may_retry`.

    Args:
        timeout: Seconds for a request including all its retries.
        retries: Maximum number of retries, at most `MAX_RETRIES`.
        backoff: Seconds before the first retry; doubles with each further retry, with
            a jitter of 20%.

    Raises:
        UserError: If an argument is out of range.
    """

    def __init__(self, timeout: float, retries: int, backoff: float) -> None:
        if not 0 < timeout <= threading.TIMEOUT_MAX:
            raise UserError(
                "timeout must be above 0 seconds and at most "
                f"{threading.TIMEOUT_MAX:.4g}. Received: {timeout}"
            )
        if backoff < _MIN_BACKOFF:
            raise UserError(
                f"backoff must be at least {_MIN_BACKOFF} s. Received: {backoff}"
            )
        if not 0 <= retries <= MAX_RETRIES:
            raise UserError(f"retries must be 0 to {MAX_RETRIES}. Received: {retries}")
        self.timeout = timeout
        self.retries = retries
        self.backoff = backoff

    def call(self, send: Callable[[float], Response]) -> Response:
        """Sends a request until it succeeds, within the retries and the timeout.

        Args:
            send: Sends the request once, within a number of seconds.

        Raises:
            RequestError: If the request fails.
        """
        deadline = time.monotonic() + self.timeout
        attempt = 0
        while True:
            try:
                return send(max(deadline - time.monotonic(), 0.001))
            except RequestError as error:
                if not error.may_retry or attempt == self.retries:
                    raise
                failure = error
            attempt += 1
            seconds = failure.retry_after
            if seconds is None:
                seconds = min(self.backoff * 2 ** (attempt - 1), MAX_BACKOFF)
                seconds *= random.uniform(0.8, 1.2)
            if time.monotonic() + seconds >= deadline:
                raise failure.at_deadline(attempt)
            time.sleep(seconds)
