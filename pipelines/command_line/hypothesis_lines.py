"""Formats hypotheses as output lines: plain text, tab-separated columns or JSON."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translation

FLAGS = flags.FLAGS


def text_lines(
    translations: Iterable[Sequence["Translation"]], first_line: int
) -> Iterator[str]:
    """Formats a line for each hypothesis, as set by --n_best and --print_scores.

    The column of a score that was not computed is empty.

    Args:
        translations: The hypotheses of each sentence.
        first_line: Line number of the first sentence.
    """
    for line, hypotheses in enumerate(translations, first_line):
        for text, score, _ in hypotheses:
            column = "" if score is None else f"{score:.4f}"
            if FLAGS.n_best > 1:
                yield f"{line}\t{column}\t{text}"
            else:
                yield f"{column}\t{text}" if FLAGS.print_scores else text


def json_lines(
    sources: Sequence[str],
    translations: Sequence[Sequence["Translation"]],
    details: Iterable[Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """Formats a JSON object for each sentence, each on one line.

    A score that was not computed is null.

    Args:
        sources: The source sentences.
        translations: The hypotheses of each sentence.
        details: Additional fields of each hypothesis, for all hypotheses of all
            sentences in order. Default: none.
    """
    from t2t_keras.data.text_lines import readable

    more = iter(details or ())
    for source, hypotheses in zip(sources, translations, strict=True):
        shown = [
            {
                "text": text,
                "score": None if score is None else round(score, 6),
                **next(more, {}),
            }
            for text, score, _ in hypotheses
        ]
        entry = {
            "source": readable(source),
            "status": hypotheses[0].status,
            "hypotheses": shown,
        }
        text = json.dumps(entry, ensure_ascii=False)
        # Some readers take these characters for line ends.
        yield re.sub(
            "[\x85\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text
        )
