"""A treebank as a parallel corpus of sentences and trees."""

import collections
import itertools
import random
from collections.abc import Iterator, Sequence

from t2t_keras.data.corpora import SPLITS, Corpus, Pair
from t2t_keras.data.input_streams import Streams
from t2t_keras.data.linearized_trees import linearize
from t2t_keras.data.trees import Tree, read_trees, simplify, tree_files
from t2t_keras.errors import UserError


class TreebankCorpus(Corpus):
    """Corpus of files of bracketed trees, for training a parser (section 6.3).

    A source is the words of a sentence separated by spaces. A target is its linearized
    tree.

    Args:
        source_lang: Language code of the text.
        paths: Files and folders of trees for each split.
        substitutions: Number of synthetic trees to add for each training tree, in which
            some constituents are replaced by constituents with the same label from
            other trees (SUB², Shi et al., 2021). Default 0.
        seed: Random seed for the substitutions. Default 0.
        keep_tags: Whether targets contain part-of-speech tags. Default False.

    Raises:
        UserError: If there are no training trees or a folder has no files of trees.
    """

    name = "treebank"
    target_lang = "trees"

    def __init__(
        self,
        source_lang: str,
        paths: dict[str, Sequence[str]],
        substitutions: int = 0,
        seed: int = 0,
        keep_tags: bool = False,
    ) -> None:
        self.source_lang = source_lang
        if not paths.get("train"):
            raise UserError("A treebank corpus needs --train_trees.")
        self._files = {split: tree_files(paths.get(split, ())) for split in SPLITS}
        self._streams = Streams(itertools.chain.from_iterable(self._files.values()))
        self._substitutions = substitutions
        self._seed = seed
        self._keep_tags = keep_tags

    def splits(self) -> Sequence[str]:
        """Returns the splits that have files."""
        return [split for split in SPLITS if self._files[split]]

    def read(self, split: str) -> Iterator[Pair]:
        """Yields sentences and linearized trees, without trees that have no words."""
        trees = self._trees(split)
        if split == "train" and self._substitutions:
            trees = self._substituted(list(trees))
        for tree in trees:
            yield " ".join(tree.words()), linearize(tree, self._keep_tags)

    def _trees(self, split: str) -> Iterator[Tree]:
        for path in self._files[split]:
            trees = read_trees(path, self._streams.open(path))
            yield from filter(None, map(simplify, trees))

    def _substituted(self, trees: list[Tree]) -> Iterator[Tree]:
        """Yields each tree, then its versions with parts from other trees."""
        by_label: dict[str, list[Tree]] = collections.defaultdict(list)
        for tree in trees:
            for part in _constituents(tree):
                by_label[part.label].append(part)
        draw = random.Random(self._seed)
        for tree in trees:
            yield tree
            for _ in range(self._substitutions):
                yield _substitute(tree, by_label, draw, 1 / _size(tree), is_top=True)


_MEAN_SUBSTITUTED = 2
"""Average number of constituents of a tree that are drawn for replacement."""
_MAX_LENGTH_RATIO = 2
"""Maximum ratio of the length of a replacement to that of the original constituent."""


def _constituents(tree: Tree) -> Iterator[Tree]:
    if tree.word is None:
        yield tree
        for child in tree.children:
            yield from _constituents(child)


def _size(tree: Tree) -> int:
    return sum(1 for _ in _constituents(tree))


def _substitute(
    tree: Tree,
    by_label: dict[str, list[Tree]],
    draw: random.Random,
    share: float,
    is_top: bool = False,
) -> Tree:
    if tree.word is not None:
        return tree
    if not is_top and draw.random() < _MEAN_SUBSTITUTED * share:
        other = draw.choice(by_label[tree.label])
        size, other_size = (sum(1 for _ in part.leaves()) for part in (tree, other))
        if other_size <= _MAX_LENGTH_RATIO * size:
            return other
    children = (_substitute(c, by_label, draw, share) for c in tree.children)
    return Tree(tree.label, tuple(children))
