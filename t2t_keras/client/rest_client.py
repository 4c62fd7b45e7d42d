"""REST client of a model server."""

import base64
import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InvalidHeader,
    NewConnectionError,
    ReadTimeoutError,
)

from t2t_keras.client.model_client import Client
from t2t_keras.client.responses import INVALID_RESPONSE, RequestError

_MAX_CONNECTIONS = 256
_MAX_SHOWN = 500
"""Maximum number of characters that messages show of a response that is not JSON."""

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
    """Translates with the REST API of a model server.

    Args:
        *arguments: Arguments of `Client`.
        **named: Arguments of `Client`.
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
        options: dict[str, Any] = {"maxsize": _MAX_CONNECTIONS}
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

    def _predict(self, sentences: list[str], seconds: float) -> Mapping[str, Any]:
        body = {
            "signature_name": self.signature_name,
            "inputs": {"text": [_json_value(sentence) for sentence in sentences]},
        }
        try:
            response = self._pool.request(
                "POST",
                self._url,
                body=json.dumps(body, ensure_ascii=False).encode(),
                headers=self._headers,
                redirect=False,
                timeout=urllib3.Timeout(total=seconds),
                retries=False,  # `Client` retries.
            )
        except ReadTimeoutError:
            raise RequestError(
                self.server, "DEADLINE_EXCEEDED", f"no response within {seconds:.3g} s"
            ) from None
        except ConnectTimeoutError as error:
            message = f"no connection within {seconds:.3g} s"
            # urllib3 counts a refused connection among the connection timeouts.
            if isinstance(error, NewConnectionError):
                message = str(error)
            raise RequestError(self.server, "UNAVAILABLE", message, False) from None
        except HTTPError as error:
            raise RequestError(self.server, "UNAVAILABLE", str(error), False) from None
        return self._outputs(response)

    def _outputs(self, response: urllib3.BaseHTTPResponse) -> Mapping[str, Any]:
        text = response.data.decode("utf-8", "replace")
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            content = None
        is_object = isinstance(content, dict)
        if response.status != 200:
            message = content.get("error") if is_object else None
            code = _CODES.get(response.status, "UNKNOWN")
            message = f"HTTP {response.status}: {message or text.strip()[:_MAX_SHOWN]}"
            raise RequestError(
                self.server, code, message, retry_after=_retry_after(response)
            )
        if not is_object or not isinstance(content.get("outputs"), dict):
            message = f"no outputs by name in {text[:_MAX_SHOWN]!r}"
            raise RequestError(self.server, INVALID_RESPONSE, message)
        return content["outputs"]

    def close(self) -> None:
        """Closes idle connections; requests in progress run until their timeout."""
        self._pool.clear()


def _retry_after(response: urllib3.BaseHTTPResponse) -> float | None:
    """Returns the Retry-After of a response in seconds, or None."""
    try:
        return urllib3.Retry().get_retry_after(response)
    except InvalidHeader:
        return None


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _json_value(sentence: str) -> str | dict[str, str]:
    """Returns a sentence as a JSON value; one with lone surrogates becomes bytes."""
    if not any("\ud800" <= character <= "\udfff" for character in sentence):
        return sentence
    encoded = sentence.encode("utf-8", "surrogatepass")
    return {"b64": base64.b64encode(encoded).decode()}
