"""Translates source sentences and scores their reference translations."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line.outcomes import Outcomes
from t2t_keras.pipelines.command_line.translator_setup import (
    describe_run,
    open_with_flags,
)
from t2t_keras.plurals import counted

if TYPE_CHECKING:
    from t2t_keras.decoding.translation_details import ScoredTranslation
    from t2t_keras.evaluation.perplexity import Perplexity
    from t2t_keras.model_dir import ModelDir

_REPORT_SENTENCES = 2000


class Decoded(NamedTuple):
    """Translations, and the perplexity of the references.

    Attributes:
        hypotheses: The translation of each sentence; empty if it was not translated.
        perplexity: Perplexity of the references.
        search: Weights and search options, for the record of the scores.
        translated: Statuses of the translated sentences.
        scored: Statuses of the scored references.
    """

    hypotheses: list[str]
    perplexity: "Perplexity"
    search: dict[str, Any]
    translated: Outcomes
    scored: Outcomes


def decode(
    model_dir: "ModelDir", name: str, sources: Sequence[str], references: Sequence[str]
) -> Decoded:
    """Translates sentences and scores their references, as set by decoding flags.

    Args:
        model_dir: Model directory.
        name: Name of the source file, for messages.
        sources: Source sentences.
        references: A reference translation of each sentence.
    """
    from t2t_keras.evaluation.perplexity import Perplexity

    opened = open_with_flags(model_dir)
    translator = opened.translator
    names = ", ".join(each.weights for each in opened.loaded)
    stage.report(f"Decoding {counted(len(sources), 'sentence')} with {names} ...")
    translator.translate(sources[:1])  # Warm-up: tracing is not timed.
    max_length = f"{translator.max_input_tokens:,} tokens"
    translated = Outcomes(name, "translated", max_length)
    scored = Outcomes(name, "counted in the perplexity", max_length)
    hypotheses: list[str] = []
    started = time.perf_counter()
    for start in range(0, len(sources), _REPORT_SENTENCES):
        found = translator.translate(sources[start : start + _REPORT_SENTENCES])
        hypotheses += [best.text for best, *_ in found]
        translated.add(best.status for best, *_ in found)
        seconds = time.perf_counter() - started
        stage.report(
            f"{len(hypotheses):,} of {counted(len(sources), 'sentence')}, "
            f"{len(hypotheses) / seconds:.1f} sentences/s"
        )
    found_scores = translator.score(sources, references)
    scored.add(one.status for one in found_scores)
    words = model_dir.tokenizers.target.words
    texts = [
        _scored_part(reference, one, words)
        for reference, one in zip(references, found_scores, strict=True)
    ]
    token_scores = [one.details.token_scores for one in found_scores]
    perplexity = Perplexity.from_token_scores(texts, token_scores)
    search = describe_run(opened)
    return Decoded(hypotheses, perplexity, search, translated, scored)


def _scored_part(
    reference: str,
    scored: "ScoredTranslation",
    words: Callable[[Sequence[str]], list[int]],
) -> str:
    """Returns the words of a reference that were scored."""
    tokens, token_scores, _ = scored.details
    if not token_scores or len(token_scores) > len(tokens):
        return reference
    # The reference was truncated: it has no end token, and its last word, which may be
    # incomplete, counts instead.
    return " ".join(reference.split()[: words(tokens)[-1]])
