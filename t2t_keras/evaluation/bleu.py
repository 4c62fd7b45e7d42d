"""Scores of translations, by sacreBLEU (Post, 2018), each with its signature.

Published BLEU scores differ in what they are computed on: a score is comparable only
to others of its flavour, which is why each has a name of its own here.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.significance import PairedTest

from t2t_keras.counted import counted
from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu_tokenizers import AUTO, choose_tokenizer
from t2t_keras.extras import require_extra

Edit = Callable[[Sequence[str]], list[str]]
"""What a flavour does to text before it is scored."""


class Score(NamedTuple):
    """A figure and how it came about.

    Attributes:
        name: A key of `FLAVOURS`.
        value: The score: 0 to 100; of TER, 0 and up, the less the better.
        signature: sacreBLEU's signature, which makes it comparable.
        lengths: Of BLEU: its tokens, and its brevity penalty.
    """

    name: str
    value: float
    signature: str
    lengths: str = ""

    def __str__(self) -> str:
        text = f"{self.name} {self.value:.2f}  ({self.signature})"
        return f"{text}  {self.lengths}" if self.lengths else text


class Comparison(NamedTuple):
    """A system's score beside a baseline's (Koehn, 2004).

    Attributes:
        name: A key of `FLAVOURS`.
        baseline: The baseline's score.
        value: The system's score.
        p_value: How likely a difference as great is by chance alone, as paired
            bootstrap resampling estimates it.
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


class _Flavour(NamedTuple):
    """How a score is computed.

    Attributes:
        metric: Makes sacreBLEU's metric, given the tokenizer that suits the language.
        editor: Makes what is done to texts of a language before that. Default none.
        mark: What the signature says of it.
    """

    metric: Callable[[str], Metric]
    editor: Callable[[str], Edit] | None = None
    mark: str = ""


def _multi_bleu(_: str) -> Metric:
    # The script of that name splits at spaces and does not smooth.
    return BLEU(tokenize="none", smooth_method="none", force=True)


FLAVOURS: dict[str, _Flavour] = {
    "bleu": _Flavour(lambda tokenizer: BLEU(tokenize=tokenizer)),
    "bleu_lc": _Flavour(lambda tokenizer: BLEU(tokenize=tokenizer, lowercase=True)),
    "bleu_intl": _Flavour(lambda _: BLEU(tokenize="intl")),
    "bleu_intl_lc": _Flavour(lambda _: BLEU(tokenize="intl", lowercase=True)),
    "bleu_moses": _Flavour(_multi_bleu, _moses, "unicode-punct+moses"),
    "bleu_moses_split": _Flavour(
        _multi_bleu, _moses_split, "unicode-punct+moses+compounds"
    ),
    "bleu_none": _Flavour(lambda _: BLEU(tokenize="none", force=True)),
    "chrf": _Flavour(lambda _: CHRF()),
    "ter": _Flavour(lambda _: TER()),
}
"""The scores that there are, by name.

"bleu" is sacreBLEU's default, cased, with the tokenizer that `choose_tokenizer` finds
for the language: 13a for most. "intl" is its international
tokenization, "lc" lower-cases, "none" is for text that is tokenized already. "moses"
is tokenized BLEU as older papers report it, after Moses' script that replaces Unicode
punctuation; with "split" also compounds are split at
hyphens, as in the paper's own English-German scores (Tensor2Tensor's get_ende_bleu.sh).
"chrf" is chrF2, "ter" the translation edit rate.
"""


def check_flavours(names: Sequence[str]) -> None:
    """Makes sure that there are such scores, and what they are computed with.

    Raises:
        UserError: If one is no key of `FLAVOURS`, there are none, or a package that one
            needs is not installed.
    """
    unknown = [name for name in names if name not in FLAVOURS]
    if unknown or not names:
        raise UserError(
            f"Scores are {', '.join(FLAVOURS)}. Received: {', '.join(unknown) or names}"
        )
    if edited := [name for name in names if FLAVOURS[name].editor]:
        require_extra("moses", f"The score {edited[0]}")


def _check_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references) or not references:
        raise UserError(
            "Scoring needs as many hypotheses as references, and at least one. "
            f"Received: {counted(len(hypotheses), 'hypothesis', 'hypotheses')} and "
            f"{counted(len(references), 'reference')}"
        )


def _signature(flavour: _Flavour, lang: str, signature: Any) -> str:
    text = signature.format()
    if not flavour.mark:
        return text
    import sacremoses

    edited = f"{flavour.mark}-{lang}-sacremoses-{sacremoses.__version__}"
    return text.replace("tok:none", f"tok:{edited}")


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    names: Sequence[str] = ("bleu", "chrf"),
    lang: str = "en",
    tokenizer: str = AUTO,
) -> list[Score]:
    """Scores translations against one reference each.

    Args:
        hypotheses: One translation a sentence.
        references: As many references.
        names: Keys of `FLAVOURS`. Default BLEU and chrF2.
        lang: Language code of the text, which tokenizers go by. Default "en".
        tokenizer: Of "bleu" and "bleu_lc", as of `choose_tokenizer`. Default "auto".

    Raises:
        UserError: If there are not as many references, or none, or no such score or
            tokenizer.
    """
    _check_lengths(hypotheses, references)
    check_flavours(names)
    suited = choose_tokenizer(lang, tokenizer).name
    scores = []
    for name in names:
        flavour = FLAVOURS[name]
        edit = flavour.editor(lang) if flavour.editor else list
        metric = flavour.metric(suited)
        result = metric.corpus_score(edit(hypotheses), [edit(references)])
        signature = _signature(flavour, lang, metric.get_signature())
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
    """Tells whether a system differs from a baseline by more than chance.

    Args:
        hypotheses: The system's translations.
        baseline: The baseline's.
        references: The references of both.
        names: Keys of `FLAVOURS`. Default BLEU and chrF2.
        lang: Language code of the text, which tokenizers go by. Default "en".
        samples: How often sentences are drawn anew. Default 1,000.
        tokenizer: Of "bleu" and "bleu_lc", as of `choose_tokenizer`. Default "auto".

    Raises:
        UserError: As of `score_translations`.
    """
    _check_lengths(hypotheses, references)
    _check_lengths(baseline, references)
    check_flavours(names)
    suited = choose_tokenizer(lang, tokenizer).name
    comparisons = []
    for name in names:
        flavour = FLAVOURS[name]
        edit = flavour.editor(lang) if flavour.editor else list
        test = PairedTest(
            [("baseline", edit(baseline)), ("system", edit(hypotheses))],
            {name: flavour.metric(suited)},
            [edit(references)],
            test_type="bs",
            n_samples=samples,
        )
        signatures, results = test()
        [(key, signature)] = signatures.items()
        # Their type has the names of systems too, which stand under another key.
        there, here = cast(list[Any], results[key])
        # Between equal systems there is no difference that chance could explain less.
        p_value = here.p_value if here.score != there.score else 1.0
        comparisons.append(
            Comparison(
                name,
                there.score,
                here.score,
                p_value,
                _signature(flavour, lang, signature),
            )
        )
    return comparisons


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lang: str = "en",
    tokenizer: str = AUTO,
) -> float:
    """Returns the score "bleu" alone; see `score_translations`."""
    [score] = score_translations(hypotheses, references, ["bleu"], lang, tokenizer)
    return score.value
