"""Asks a model server for translations over REST."""

import base64
import json
import math
import random
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Self

import urllib3
from urllib3.exceptions import (
    HTTPError,
    MaxRetryError,
    NewConnectionError,
    TimeoutError,
)

from t2t_keras.serving.client import MOST_BACKOFF, Client
from t2t_keras.serving.client_answer import INVALID_ANSWER, RequestError

_RETRIED = (429, 502, 503)
_MOST_CONNECTIONS = 256
_SHOWN = 500
"""Characters of an answer that is no JSON, in messages."""

_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class RestClient(Client):
    """Translates by the REST API of a model server.

    Args:
        *arguments: Those of `Client`.
        **named: Likewise.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        scheme = "https" if self._tls_context else "http"
        self._url = f"{scheme}://{self.server}/v1/models/{_quoted(self.model_name)}"
        if self.version is not None:
            self._url += f"/versions/{self.version}"
        if self.label:
            self._url += f"/labels/{_quoted(self.label)}"
        self._url += ":predict"
        self._headers = {"Content-Type": "application/json"}
        if self.token:
            self._headers["Authorization"] = f"Bearer {self.token}"
        options: dict[str, Any] = {"maxsize": _MOST_CONNECTIONS}
        if self._tls_context:
            options["ssl_context"] = self._tls_context
        host = self.address.host
        is_direct = self.address.is_loopback or urllib.request.proxy_bypass(host)
        proxy = None if is_direct else urllib.request.getproxies().get(scheme)
        self._pool = (
            urllib3.ProxyManager(proxy, **options)
            if proxy
            else urllib3.PoolManager(**options)
        )

    def _predict(self, sentences: list[str]) -> Mapping[str, Any]:
        body = {
            "signature_name": self.signature_name,
            "inputs": {"text": [_value(sentence) for sentence in sentences]},
        }
        ends = time.monotonic() + self.timeout
        try:
            response = self._pool.request(
                "POST",
                self._url,
                body=json.dumps(body, ensure_ascii=False).encode(),
                headers=self._headers,
                redirect=False,
                timeout=_TimeLeft(ends),
                retries=_Retries(
                    total=self.retries,
                    other=0,  # A certificate does not become better.
                    allowed_methods=None,
                    status_forcelist=_RETRIED,
                    raise_on_status=False,
                    backoff_factor=self.backoff,
                    ends=ends,
                ),
            )
        except HTTPError as error:
            reason = error.reason if isinstance(error, MaxRetryError) else error
            is_late = isinstance(reason, (_Late, TimeoutError))
            # To urllib3 a refused connection is one that took too long.
            is_late = is_late and not isinstance(reason, NewConnectionError)
            code = "DEADLINE_EXCEEDED" if is_late else "UNAVAILABLE"
            raise RequestError(self.server, code, str(reason)) from None
        return self._outputs(response)

    def _outputs(self, response: urllib3.BaseHTTPResponse) -> Mapping[str, Any]:
        text = response.data.decode("utf-8", "replace")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        is_object = isinstance(answer, dict)
        if response.status != 200:
            said = answer.get("error") if is_object else None
            code = _CODES.get(response.status, "UNKNOWN")
            said = f"HTTP {response.status}: {said or text.strip()[:_SHOWN]}"
            raise RequestError(self.server, code, said)
        if not is_object or not isinstance(answer.get("outputs"), dict):
            said = f"no named outputs in {text[:_SHOWN]!r}"
            raise RequestError(self.server, INVALID_ANSWER, said)
        return answer["outputs"]

    def close(self) -> None:
        """Closes idle connections; what is under way goes on until its deadline."""
        self._pool.clear()


class _Late(HTTPError):
    """There is no time left for another attempt."""


class _TimeLeft(urllib3.Timeout):
    """What each attempt may take: the time that is left of the request's.

    Args:
        ends: The request's deadline, in `time.monotonic`'s seconds.
    """

    def __init__(self, ends: float) -> None:
        super().__init__(total=max(ends - time.monotonic(), 0.001))
        self._ends = ends

    def clone(self) -> "_TimeLeft":
        """Is called for each attempt."""
        return _TimeLeft(self._ends)


class _Retries(urllib3.Retry):
    """Retries that wait as gRPC does, and end with the request's deadline.

    Args:
        ends: The deadline, in `time.monotonic`'s seconds.
        **options: Those of `urllib3.Retry`.
    """

    def __init__(self, ends: float = math.inf, **options: Any) -> None:
        super().__init__(**options)
        self._ends = ends

    def new(self, **changed: Any) -> Self:
        """Is called for each attempt."""
        return super().new(ends=self._ends, **changed)

    def get_backoff_time(self) -> float:
        """Returns how long to wait where the server does not say it."""
        seconds = self.backoff_factor * 2 ** (len(self.history) - 1)
        return random.uniform(0.8, 1.2) * min(seconds, MOST_BACKOFF)

    def sleep(self, response: urllib3.BaseHTTPResponse | None = None) -> None:
        """Waits for the next attempt, unless it would be too late for it."""
        seconds = None if response is None else self.get_retry_after(response)
        if seconds is None:
            seconds = self.get_backoff_time()
        if time.monotonic() + seconds >= self._ends:
            last = self.history[-1]
            raise _Late(
                f"no time is left for another attempt after {len(self.history)}; the "
                f"last one: {last.error or f'HTTP {last.status}'}"
            )
        time.sleep(seconds)


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _value(sentence: str) -> str | dict[str, str]:
    """Returns a sentence for JSON; half a surrogate pair is no text, but bytes."""
    if not any("\ud800" <= character <= "\udfff" for character in sentence):
        return sentence
    encoded = sentence.encode("utf-8", "surrogatepass")
    return {"b64": base64.b64encode(encoded).decode()}
