"""What a model server answers to a client: translations, or an error."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_keras.counted import counted
from t2t_keras.decoding.status import MODEL_ERROR, OK, TOO_LONG
from t2t_keras.decoding.text_search import NO_HYPOTHESIS
from t2t_keras.decoding.translations import Translation

INVALID_ANSWER = "INVALID_ANSWER"
"""The code of an answer that is no translation."""

_NO_SERVER = "Check that a server of this protocol runs there, TLS or not."

_ADVICE = {
    "DEADLINE_EXCEEDED": "Allow more time, or send fewer sentences at once.",
    INVALID_ANSWER: "Is the model an export of t2t-export, and the signature there?",
    "NOT_FOUND": "Check the model's name, version and label.",
    "PERMISSION_DENIED": "Check the API token.",
    "RESOURCE_EXHAUSTED": "Send fewer or smaller requests at once, or retry later.",
    "UNAUTHENTICATED": "Check the API token.",
    "UNAVAILABLE": _NO_SERVER,
    "UNIMPLEMENTED": "Check that this is the port of a model server.",
}


_CONNECTION_ADVICE = {
    r"alert|after TLS began": (
        "The server does not accept this client: check its certificate and key, and "
        "that the server trusts who signed it."
    ),
    r"certificate[_ ]verify[_ ]failed|hostname verification": (
        "The server's certificate is not trusted: check the file of who signed it, and "
        "that it is for this name."
    ),
    r"wrong[_ ]version[_ ]number": "The server does not use TLS on this port.",
    r"connection refused": (
        "Nothing listens there. Check that a server of this protocol runs there, and "
        "has loaded its models."
    ),
    r"resolv|not known|domain name not found": "Check the name of the host.",
    r"no connection within|timed out|no route|unreachable": (
        "The host does not answer: check host and port, and that it is up."
    ),
}
"""What to do where no server was reached, by what the connection said."""

_TLS = r"alert|certificate|hostname verification|wrong[_ ]version"


class RequestError(RuntimeError):
    """A request that was not answered, retries included.

    Args:
        server: Where it was sent.
        code: The name of gRPC's status, for REST too; or `INVALID_ANSWER`.
        said: What the server or the connection said.
        is_connected: Whether it was the server that said it. Default True.
        retry_after: Seconds after which the server wants to be asked again. Default
            not known.

    Attributes:
        may_retry: Whether the same request may be answered at another time.
    """

    def __init__(
        self,
        server: str,
        code: str,
        said: str,
        is_connected: bool = True,
        retry_after: float | None = None,
    ) -> None:
        advice = _ADVICE.get(code, "")
        if not is_connected:
            found = (
                advice
                for pattern, advice in _CONNECTION_ADVICE.items()
                if re.search(pattern, said, re.IGNORECASE)
            )
            advice = next(found, _NO_SERVER)
        super().__init__(f"{server}: {code}: {said.rstrip('.')}. {advice}".rstrip())
        self.server = server
        self.code = code
        self.said = said
        self.retry_after = retry_after
        self._is_connected = is_connected
        # Certificates do not become better.
        is_tls = not is_connected and re.search(_TLS, said, re.IGNORECASE)
        self.may_retry = code in ("UNAVAILABLE", "RESOURCE_EXHAUSTED") and not is_tls

    def at_deadline(self, attempts: int) -> "RequestError":
        """Returns the error if there is no time for another attempt.

        Args:
            attempts: How many there have been.
        """
        said = (
            f"no time is left for another attempt after {attempts}; the last one: "
            f"{self.said}"
        )
        # A server that was never reached is not slow.
        code = "DEADLINE_EXCEEDED" if self._is_connected else self.code
        return RequestError(self.server, code, said, self._is_connected)


def read_answer(
    server: str, outputs: Mapping[str, Any], number: int, n_best: bool
) -> list[list[Translation]]:
    """Makes translations of a signature's outputs.

    Args:
        server: Who gave them, for the message.
        outputs: Arrays or lists by name, strings as bytes or as text.
        number: Of sentences.
        n_best: Whether they are those of the signature `n_best`.

    Returns:
        For each sentence its hypotheses, the best first, and at least one.

    Raises:
        RequestError: If they are not what the signature promises.
    """
    names = ("translations", "scores") if n_best else ("translation", "score")
    try:
        texts = np.asarray(outputs[names[0]], object)
        scores = np.asarray(outputs[names[1]], np.float32)
        states = np.asarray(outputs["status"], object)
    except (KeyError, TypeError, ValueError) as error:
        said = f"the outputs are {sorted(outputs)}: {error!r}"
        raise RequestError(server, INVALID_ANSWER, said) from error
    # [batch], or [batch, n_best]
    rank = 2 if n_best else 1
    is_right = texts.shape == scores.shape and states.shape == (number,)
    if not is_right or texts.ndim != rank or len(texts) != number:
        said = (
            f"for {counted(number, 'sentence')} came {names[0]} {list(texts.shape)}, "
            f"{names[1]} {list(scores.shape)} and status {list(states.shape)}"
        )
        raise RequestError(server, INVALID_ANSWER, said)
    found = []
    for row, row_scores, state in zip(
        # [batch, hypotheses]
        texts.reshape(number, -1),
        scores.reshape(number, -1),
        map(_text, states),
        strict=True,
    ):
        if row_scores.size and np.isnan(row_scores[0]):
            state = MODEL_ERROR  # Which an older export does not say.
        hypotheses = [
            Translation(_text(text), float(score), state)
            for text, score in zip(row, row_scores, strict=True)
            # A search that found fewer fills up with impossible ones.
            if state in (OK, TOO_LONG) and score > NO_HYPOTHESIS
        ]
        found.append(hypotheses or [Translation("", None, state)])
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
