"""BLEU, chrF and TER by sacreBLEU (Post, 2018), each with its signature.

Published BLEU scores differ in tokenization and casing, and only scores of the same
kind are comparable. Each kind therefore has a name of its own; see `SCORES`.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu_tokenizers import AUTO, choose_tokenizer
from t2t_keras.optional_packages import require_extra
from t2t_keras.plurals import counted

Edit = Callable[[Sequence[str]], list[str]]
"""Preprocesses texts before they are scored."""


class Score(NamedTuple):
    """A corpus-level score and how it was computed.

    Attributes:
        name: A key of `SCORES`.
        value: The score: 0 to 100, higher is better. For TER: 0 and up, lower is
            better.
        signature: sacreBLEU's signature. Scores are comparable if it is equal.
        lengths: For BLEU: number of hypothesis and reference tokens, and the brevity
            penalty. Empty for other scores.
    """

    name: str
    value: float
    signature: str
    lengths: str = ""

    def __str__(self) -> str:
        text = f"{self.name} {self.value:.2f}  ({self.signature})"
        return f"{text}  {self.lengths}" if self.lengths else text


class Comparison(NamedTuple):
    """Comparison of a system with a baseline (Koehn, 2004).

    Attributes:
        name: A key of `SCORES`.
        baseline: Score of the baseline.
        value: Score of the system.
        p_value: Probability that a difference of this size occurs by chance, estimated
            by paired bootstrap resampling.
        signature: sacreBLEU's signature.
    """

    name: str
    baseline: float
    value: float
    p_value: float
    signature: str

    def __str__(self) -> str:
        return (
            f"{self.name} {self.value:.2f}, baseline {self.baseline:.2f}, p = "
            f"{self.p_value:.4f}  ({self.signature})"
        )


def _moses(lang: str) -> Edit:
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(lang), MosesTokenizer(lang)

    def edit(texts: Sequence[str]) -> list[str]:
        return [
            tokenizer.tokenize(normalizer.replace_unicode_punct(text), return_str=True)
            for text in texts
        ]

    return edit


def _moses_split(lang: str) -> Edit:
    tokenize = _moses(lang)

    def edit(texts: Sequence[str]) -> list[str]:
        return [
            re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", text)
            for text in tokenize(texts)
        ]

    return edit


class _Definition(NamedTuple):
    """Definition of a score.

    Attributes:
        metric: Creates sacreBLEU's metric, given the tokenizer for the language.
        editor: Creates the preprocessing function for a language. Default None (no
            preprocessing).
        preprocessing: Name of the preprocessing in the signature.
    """

    metric: Callable[[str], Metric]
    editor: Callable[[str], Edit] | None = None
    preprocessing: str = ""


def _multi_bleu(_: str) -> Metric:
    # Like Moses' multi-bleu script, split at spaces and do not smooth.
    return BLEU(tokenize="none", smooth_method="none", force=True)


SCORES: dict[str, _Definition] = {
    "bleu": _Definition(lambda tokenizer: BLEU(tokenize=tokenizer)),
    "bleu_lc": _Definition(lambda tokenizer: BLEU(tokenize=tokenizer, lowercase=True)),
    "bleu_intl": _Definition(lambda _: BLEU(tokenize="intl")),
    "bleu_intl_lc": _Definition(lambda _: BLEU(tokenize="intl", lowercase=True)),
    "bleu_moses": _Definition(_multi_bleu, _moses, "unicode-punct+moses"),
    "bleu_moses_split": _Definition(
        _multi_bleu, _moses_split, "unicode-punct+moses+compounds"
    ),
    "bleu_none": _Definition(lambda _: BLEU(tokenize="none", force=True)),
    "chrf": _Definition(lambda _: CHRF()),
    "ter": _Definition(lambda _: TER()),
}
"""The available scores by name.

- "bleu": sacreBLEU's default, cased, with the tokenizer that `choose_tokenizer` returns
  for the language (13a for most languages).
- Suffix "intl": sacreBLEU's international tokenization.
- Suffix "lc": lower-cased.
- Suffix "none": for text that is already tokenized.
- Suffix "moses": tokenized BLEU as in older papers, after the Moses script that
  replaces Unicode punctuation.
- Suffix "moses_split": also splits compounds at hyphens, as in the English-German
  scores of the Transformer paper (Tensor2Tensor's get_ende_bleu.sh).
- "chrf": chrF2.
- "ter": translation edit rate.
"""


def check_score_names(names: Sequence[str]) -> None:
    """Checks the names of scores and the packages that they need.

    Raises:
        UserError: If there are no names, one is not a key of `SCORES`, or a required
            package is not installed.
    """
    unknown = [name for name in names if name not in SCORES]
    if unknown or not names:
        raise UserError(
            f"Scores must be among {', '.join(SCORES)}. Received: "
            f"{', '.join(unknown) or names}"
        )
    if preprocessed := [name for name in names if SCORES[name].editor]:
        require_extra("moses", f"The score {preprocessed[0]}")


def _check_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise UserError(
            "Scoring needs the same number of hypotheses and references, at least one. "
            f"Received: {counted(len(hypotheses), 'hypothesis', 'hypotheses')} and "
            f"{counted(len(references), 'reference')}"
        )


def _signature(definition: _Definition, lang: str, signature: Any) -> str:
    text = signature.format()
    if not definition.preprocessing:
        return text
    import sacremoses

    preprocessed = (
        f"{definition.preprocessing}-{lang}-sacremoses-{sacremoses.__version__}"
    )
    return text.replace("tok:none", f"tok:{preprocessed}")


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    names: Sequence[str] = ("bleu", "chrf"),
    lang: str = "en",
    tokenizer: str = AUTO,
) -> list[Score]:
    """Scores hypotheses against one reference each.

    Args:
        hypotheses: One translation per sentence.
        references: One reference per sentence.
        names: Keys of `SCORES`. Default BLEU and chrF2.
        lang: Language code of the text, used to choose tokenizers. Default "en".
        tokenizer: Tokenizer for "bleu" and "bleu_lc"; see `choose_tokenizer`. Default
            "auto".

    Raises:
        UserError: If the numbers of hypotheses and references differ or are 0, or a
            score or the tokenizer is unknown.
    """
    _check_lengths(hypotheses, references)
    check_score_names(names)
    chosen_tokenizer = choose_tokenizer(lang, tokenizer).name
    scores = []
    for name in names:
        definition = SCORES[name]
        edit = definition.editor(lang) if definition.editor else list
        metric = definition.metric(chosen_tokenizer)
        result = metric.corpus_score(edit(hypotheses), [edit(references)])
        signature = _signature(definition, lang, metric.get_signature())
        lengths = (
            f"{counted(result.sys_len, 'token')} for {result.ref_len:,}, "
            f"brevity {result.bp:.3f}"
            if isinstance(result, BLEUScore)
            else ""
        )
        scores.append(Score(name, result.score, signature, lengths))
    return scores


def compare_translations(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    names: Sequence[str] = ("bleu", "chrf"),
    lang: str = "en",
    samples: int = 1000,
    tokenizer: str = AUTO,
) -> list[Comparison]:
    """Tests whether a system differs significantly from a baseline.

    Args:
        hypotheses: Translations of the system.
        baseline: Translations of the baseline.
        references: One reference per sentence.
        names: Keys of `SCORES`. Default BLEU and chrF2.
        lang: Language code of the text, used to choose tokenizers. Default "en".
        samples: Number of bootstrap samples. Default 1,000.
        tokenizer: Tokenizer for "bleu" and "bleu_lc"; see `choose_tokenizer`. Default
            "auto".

    Raises:
        UserError: As in `score_translations`.
    """
    _check_lengths(hypotheses, references)
    _check_lengths(baseline, references)
    check_score_names(names)
    chosen_tokenizer = choose_tokenizer(lang, tokenizer).name
    comparisons = []
    for name in names:
        definition = SCORES[name]
        edit = definition.editor(lang) if definition.editor else list
        test = PairedTest(
            [("baseline", edit(baseline)), ("system", edit(hypotheses))],
            {name: definition.metric(chosen_tokenizer)},
            [edit(references)],
            test_type="bs",
            n_samples=samples,
        )
        signatures, results = test()
        [(key, signature)] = signatures.items()
        # Cast because the type also covers the names of systems, under another key.
        base, system = cast(list[Any], results[key])
        # Equal scores are not evidence of any difference.
        p_value = system.p_value if system.score != base.score else 1.0
        comparisons.append(
            Comparison(
                name,
                base.score,
                system.score,
                p_value,
                _signature(definition, lang, signature),
            )
        )
    return comparisons


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lang: str = "en",
    tokenizer: str = AUTO,
) -> float:
    """Returns the value of the score "bleu"; see `score_translations`."""
    [score] = score_translations(hypotheses, references, ["bleu"], lang, tokenizer)
    return score.value
