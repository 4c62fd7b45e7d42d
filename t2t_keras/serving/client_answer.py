"""What a model server answers to a client: translations, or an error."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.text_search import OK, TOO_LONG
from t2t_keras.decoding.translator import Translation

INVALID_ANSWER = "INVALID_ANSWER"
"""The code of an answer that is no translation."""

_ADVICE = {
    "DEADLINE_EXCEEDED": "Allow more time, or send fewer sentences at once.",
    INVALID_ANSWER: "Is the model an export of t2t-export, and the signature there?",
    "NOT_FOUND": "Check the model's name, version and label.",
    "PERMISSION_DENIED": "Check the API token.",
    "RESOURCE_EXHAUSTED": "Send fewer or smaller requests at once, or retry later.",
    "UNAUTHENTICATED": "Check the API token.",
    "UNAVAILABLE": "Check that a server of this protocol runs there, TLS or not.",
    "UNIMPLEMENTED": "Check that this is the port of a model server.",
}


class RequestError(RuntimeError):
    """A request that was not answered, retries included.

    Attributes:
        server: Where it was sent.
        code: The name of gRPC's status, for REST too; or `INVALID_ANSWER`.
        said: What the server or the connection said.
    """

    def __init__(self, server: str, code: str, said: str) -> None:
        advice = _ADVICE.get(code, "")
        super().__init__(f"{server}: {code}: {said.rstrip('.')}. {advice}".rstrip())
        self.server = server
        self.code = code
        self.said = said


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
            f"for {number} sentences came {names[0]} {list(texts.shape)}, {names[1]} "
            f"{list(scores.shape)} and status {list(states.shape)}"
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
        hypotheses = [
            Translation(_text(text), float(score), state)
            for text, score in zip(row, row_scores, strict=True)
            # A search that found fewer fills up with impossible ones.
            if state in (OK, TOO_LONG) and score > IMPOSSIBLE / 1000
        ]
        found.append(hypotheses or [Translation("", 0.0, state)])
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
