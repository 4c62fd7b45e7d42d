"""Labelled bracketing precision, recall and F1 (Black et al., 1991).

The rules are those of the file COLLINS.prm of evalb by Sekine and Collins, which
published parsing scores use: the top bracket and punctuation are ignored, and PRT
counts as ADVP.
"""

import collections
from collections.abc import Iterable
from typing import NamedTuple

from t2t_keras.data.trees import Tree, brackets
from t2t_keras.errors import UserError
from t2t_keras.plurals import counted

_PUNCTUATION = frozenset({",", ":", "``", "''", "."})
_EQUAL_LABELS = {"PRT": "ADVP"}


class BracketScore(NamedTuple):
    """Agreement of the brackets of a parser with those of an annotator.

    Attributes:
        sentences: Number of sentences.
        exact: Number of sentences whose brackets match exactly.
        matched: Number of brackets found in both.
        parsed: Number of brackets of the parser.
        gold: Number of brackets of the annotator.
    """

    sentences: int
    exact: int
    matched: int
    parsed: int
    gold: int

    @property
    def precision(self) -> float:
        """Percentage of the parser's brackets that are correct."""
        return 100 * self.matched / max(self.parsed, 1)

    @property
    def recall(self) -> float:
        """Percentage of the annotator's brackets that the parser found."""
        return 100 * self.matched / max(self.gold, 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in percent."""
        return 200 * self.matched / max(self.parsed + self.gold, 1)

    def __str__(self) -> str:
        return (
            f"F1 {self.f1:.2f}  precision {self.precision:.2f}  recall "
            f"{self.recall:.2f}  exact {100 * self.exact / self.sentences:.2f}  "
            f"(labelled brackets, COLLINS.prm, {counted(self.sentences, 'sentence')})"
        )


def score_brackets(gold: Iterable[Tree], parsed: Iterable[Tree]) -> BracketScore:
    """Compares parsed trees with annotated ones.

    The annotator's parts of speech determine which words are punctuation.

    Args:
        gold: Simplified trees of an annotator.
        parsed: Trees of a parser over the same words, in the same order.

    Raises:
        UserError: If the numbers of trees differ or are 0, or two corresponding trees
            have different words. (evalb counts such a pair as an error and skips it.)
    """
    gold, parsed = list(gold), list(parsed)
    if len(gold) != len(parsed) or not gold:
        raise UserError(
            "Scoring needs the same number of parsed and annotated trees, at least "
            f"one. Received: {len(parsed)} and {len(gold)}"
        )
    sums: collections.Counter[str] = collections.Counter()
    for number, (right, found) in enumerate(zip(gold, parsed, strict=True), 1):
        if right.words() != found.words():
            raise UserError(
                f"The trees of sentence {number} have different words: "
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
