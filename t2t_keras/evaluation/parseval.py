"""Labelled bracketing precision, recall and F1, by evalb's usual rules.

Black et al. (1991) for the measure; the rules are those of the file COLLINS.prm that
comes with Sekine and Collins' evalb, which published parsing figures follow: brackets
around the whole sentence and punctuation do not count, and PRT counts as ADVP.
"""

import collections
from collections.abc import Iterable
from typing import NamedTuple

from t2t_keras.counted import counted
from t2t_keras.data.trees import Tree, brackets
from t2t_keras.errors import UserError

_PUNCTUATION = frozenset({",", ":", "``", "''", "."})
_EQUAL_LABELS = {"PRT": "ADVP"}


class BracketScore(NamedTuple):
    """How the brackets of parsed sentences agree with an annotator's.

    Attributes:
        sentences: How many sentences.
        exact: How many of them have all brackets right and none beyond.
        matched: Brackets of both.
        parsed: Brackets of the parser.
        gold: Brackets of the annotator.
    """

    sentences: int
    exact: int
    matched: int
    parsed: int
    gold: int

    @property
    def precision(self) -> float:
        """Share of the parser's brackets that are right, in percent."""
        return 100 * self.matched / max(self.parsed, 1)

    @property
    def recall(self) -> float:
        """Share of the annotator's brackets that were found, in percent."""
        return 100 * self.matched / max(self.gold, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, in percent."""
        return 200 * self.matched / max(self.parsed + self.gold, 1)

    def __str__(self) -> str:
        return (
            f"F1 {self.f1:.2f}  precision {self.precision:.2f}  recall "
            f"{self.recall:.2f}  exact {100 * self.exact / self.sentences:.2f}  "
            f"(labelled brackets, COLLINS.prm, {counted(self.sentences, 'sentence')})"
        )


def score_brackets(gold: Iterable[Tree], parsed: Iterable[Tree]) -> BracketScore:
    """Compares trees.

    Which words are punctuation is what the annotator's parts of speech say.

    Args:
        gold: Simplified trees of an annotator.
        parsed: A parser's trees over the same words, in the same order.

    Raises:
        UserError: If there are not as many of both, or none, or two trees are not
            over the same words, which evalb would count as an error and leave out.
    """
    gold, parsed = list(gold), list(parsed)
    if len(gold) != len(parsed) or not gold:
        raise UserError(
            "Scoring needs as many parsed as annotated trees, and at least one. "
            f"Received: {len(parsed)} and {len(gold)}"
        )
    sums: collections.Counter[str] = collections.Counter()
    for number, (right, found) in enumerate(zip(gold, parsed, strict=True), 1):
        if right.words() != found.words():
            raise UserError(
                f"The trees of sentence {number} are over different words: "
                f"{' '.join(found.words())!r} and {' '.join(right.words())!r}"
            )
        skip = [leaf.label in _PUNCTUATION for leaf in right.leaves()]
        right_brackets, found_brackets = (
            collections.Counter(
                (_EQUAL_LABELS.get(label, label), start, end)
                for label, start, end in brackets(tree, skip)
            )
            for tree in (right, found)
        )
        sums["exact"] += right_brackets == found_brackets
        sums["matched"] += (right_brackets & found_brackets).total()
        sums["parsed"] += found_brackets.total()
        sums["gold"] += right_brackets.total()
    return BracketScore(len(gold), **{k: sums[k] for k in BracketScore._fields[1:]})
