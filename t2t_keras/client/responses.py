"""Responses of a model server: translations or an error."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_keras.decoding.text_search import NO_HYPOTHESIS
from t2t_keras.decoding.translation_status import MODEL_ERROR, OK, TOO_LONG
from t2t_keras.decoding.translations import Translation
from t2t_keras.plurals import counted

INVALID_RESPONSE = "INVALID_RESPONSE"
"""Code of a response that does not hold translations."""

_NO_SERVER = "Check that a server of this protocol, with or without TLS, listens there."

_ADVICE = {
    "DEADLINE_EXCEEDED": "Increase the timeout or send fewer sentences per request.",
    INVALID_RESPONSE: (
        "Check that t2t-export exported the model and that it has this signature."
    ),
    "NOT_FOUND": "Check the model's name, version and label.",
    "PERMISSION_DENIED": "Check the API token.",
    "RESOURCE_EXHAUSTED": "Send fewer or smaller requests at a time, or retry later.",
    "UNAUTHENTICATED": "Check the API token.",
    "UNAVAILABLE": _NO_SERVER,
    "UNIMPLEMENTED": "Check that this is the port of a model server.",
}


_CONNECTION_ADVICE = {
    r"alert|after TLS began": (
        "The server does not accept this client: check the client's certificate and "
        "key, and that the server trusts the authority that signed it."
    ),
    r"certificate[_ ]verify[_ ]failed|hostname verification": (
        "The server's certificate is not trusted: check the CA file and that the "
        "certificate is for this host name."
    ),
    r"wrong[_ ]version[_ ]number": "The server does not use TLS on this port.",
    r"connection refused": (
        "Nothing listens there. Check that a server of this protocol is running and "
        "has loaded its models."
    ),
    r"resolv|not known|domain name not found": "Check the host name.",
    r"no connection within|timed out|no route|unreachable": (
        "The host does not respond: check the host and port, and that the host is up."
    ),
}
"""Advice by connection error, for failures to reach a server."""

_TLS = r"alert|certificate|hostname verification|wrong[_ ]version"


class RequestError(RuntimeError):
    """A request that failed, retries included.

    Args:
        server: Address of the server.
        code: Name of the gRPC status, for REST too; or `INVALID_RESPONSE`.
        message: Error message of the server or the connection.
        is_connected: Whether the server was reached. Default True.
        retry_after: Seconds that the server asks to wait before a retry. Default
            unknown.

    Attributes:
        may_retry: Whether the same request may succeed later.
    """

    def __init__(
        self,
        server: str,
        code: str,
        message: str,
        is_connected: bool = True,
        retry_after: float | None = None,
    ) -> None:
        advice = _ADVICE.get(code, "")
        if not is_connected:
            matching_advice = (
                advice
                for pattern, advice in _CONNECTION_ADVICE.items()
                if re.search(pattern, message, re.IGNORECASE)
            )
            advice = next(matching_advice, _NO_SERVER)
        super().__init__(f"{server}: {code}: {message.rstrip('.')}. {advice}".rstrip())
        self.server = server
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self._is_connected = is_connected
        # A retry does not fix a certificate.
        is_tls = not is_connected and re.search(_TLS, message, re.IGNORECASE)
        self.may_retry = code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED") and not is_tls

    def at_deadline(self, attempts: int) -> "RequestError":
        """Returns the error to raise if there is no time for another attempt.

        Args:
            attempts: Number of attempts so far.
        """
        message = (
            f"no time left for a retry after {counted(attempts, 'attempt')}; "
            f"last error: {self.message}"
        )
        # A server that was never reached is not slow.
        code = "DEADLINE_EXCEEDED" if self._is_connected else self.code
        return RequestError(self.server, code, message, self._is_connected)


def read_response(
    server: str, outputs: Mapping[str, Any], number: int, n_best: bool
) -> list[list[Translation]]:
    """Converts the outputs of a signature to translations.

    Args:
        server: Address of the server, for error messages.
        outputs: Arrays or lists by output name; strings are bytes or text.
        number: Number of sentences in the request.
        n_best: Whether the outputs are those of signature `n_best`.

    Returns:
        Hypotheses of each sentence, the best first, at least one.

    Raises:
        RequestError: If the outputs do not match the signature.
    """
    names = ("translations", "scores") if n_best else ("translation", "score")
    try:
        texts = np.asarray(outputs[names[0]], object)
        scores = np.asarray(outputs[names[1]], np.float32)
        states = np.asarray(outputs["status"], object)
    except (KeyError, TypeError, ValueError) as error:
        message = f"the outputs are {sorted(outputs)}: {error!r}"
        raise RequestError(server, INVALID_RESPONSE, message) from error
    # [batch], or [batch, n_best]
    rank = 2 if n_best else 1
    shapes_match = texts.shape == scores.shape and states.shape == (number,)
    if not shapes_match or texts.ndim != rank or len(texts) != number:
        message = (
            f"the outputs for {counted(number, 'sentence')} have the shapes "
            f"{names[0]} {list(texts.shape)}, {names[1]} {list(scores.shape)} and "
            f"status {list(states.shape)}"
        )
        raise RequestError(server, INVALID_RESPONSE, message)
    translations = []
    for row, row_scores, state in zip(
        # [batch, hypotheses]
        texts.reshape(number, -1),
        scores.reshape(number, -1),
        map(_text, states),
        strict=True,
    ):
        if row_scores.size and np.isnan(row_scores[0]):
            state = MODEL_ERROR  # Older exports do not have this status.
        hypotheses = [
            Translation(_text(text), float(score), state)
            for text, score in zip(row, row_scores, strict=True)
            # The search pads missing hypotheses with impossible scores.
            if state in (OK, TOO_LONG) and score > NO_HYPOTHESIS
        ]
        translations.append(hypotheses or [Translation("", None, state)])
    return translations


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
