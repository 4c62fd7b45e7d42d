"""Constituency trees in the bracketed format of the Penn Treebank (section 6.3)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from t2t_keras.counted import counted
from t2t_keras.data.lines import read_lines
from t2t_keras.errors import UserError
from t2t_keras.files import user_path

TOP = "TOP"
"""The label of what holds a whole sentence and is no constituent itself."""

MOST_NESTED = 200
"""How many brackets may be open at once; people nest far fewer."""

_TOP_LABELS = frozenset({"", TOP, "ROOT", "S1"})
TRACE = "-NONE-"
"""The part of speech of what is no word: where an annotator saw one moved from."""
_TOKEN = re.compile(r"[()]|[^\s()]+")
_SUFFIXES = (".mrg", ".mrg.gz", ".trees", ".trees.gz", ".txt", ".txt.gz")


class Tree(NamedTuple):
    """A constituent, or a word with its part of speech.

    Attributes:
        label: The constituent's tag, or the word's part of speech.
        children: The constituents and words that it consists of; of a word, none.
        word: The word; None for a constituent.
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def leaves(self) -> Iterator["Tree"]:
        """Yields the words, from left to right, as trees."""
        if self.word is not None:
            yield self
        for child in self.children:
            yield from child.leaves()

    def words(self) -> list[str]:
        """Returns the words, from left to right."""
        return [leaf.word or "" for leaf in self.leaves()]

    def __str__(self) -> str:
        inside = self.word or " ".join(str(child) for child in self.children)
        return f"({self.label} {inside})"


def tree_files(paths: Iterable[str | Path]) -> list[Path]:
    """Returns the files of trees that paths name.

    Args:
        paths: Files, and folders that are searched for them: names that end in .mrg,
            .trees or .txt, with or without .gz.

    Raises:
        UserError: If there is no such file or folder, or a folder has no such file.
    """
    files: list[Path] = []
    for path in map(Path, paths):
        with user_path(path, "read"):
            if not path.exists():
                raise UserError(f"No such file or folder: {path}")
            is_folder = path.is_dir()
        if not is_folder:
            files.append(path)
            continue
        found = sorted(
            p
            for p in path.rglob("*")
            if p.name.lower().endswith(_SUFFIXES) and p.is_file()
        )
        if not found:
            raise UserError(
                f"{path} has no file of trees: none ends in {', '.join(_SUFFIXES)}."
            )
        files += found
    return files


def read_trees(path: str | Path, content: BinaryIO | None = None) -> Iterator[Tree]:
    """Yields the trees of a file, over as many lines as each takes.

    Args:
        path: The file, plain or .gz.
        content: Where to read it, if not there.

    Raises:
        UserError: If the brackets do not match, or something is no tree; the message
            names the file and the line.
    """
    # Of each open bracket: its line, its label, what it holds so far.
    open_: list[tuple[int, list[str], list[Tree]]] = []
    number = 0
    for number, line in enumerate(read_lines(path, content), 1):
        for token in _TOKEN.findall(line):
            if token == "(":
                open_.append((number, [], []))
                if len(open_) > MOST_NESTED:
                    raise UserError(
                        f"{path}:{number}: more than {MOST_NESTED} open brackets."
                    )
            elif not open_:
                raise UserError(f"{path}:{number}: {token!r} stands in no tree.")
            elif token != ")" and open_[-1][2]:
                raise UserError(
                    f"{path}:{number}: {token!r} stands beside brackets, in none of "
                    "its own."
                )
            elif token != ")":
                open_[-1][1].append(token)
            else:
                begun, texts, children = open_.pop()
                tree = _tree(texts, children, f"{path}:{begun}")
                if open_:
                    open_[-1][2].append(tree)
                else:
                    yield tree
    if open_:
        raise UserError(f"{path}:{open_[0][0]}: the tree that begins here has no end.")


def _tree(texts: list[str], children: list[Tree], place: str) -> Tree:
    if children and len(texts) <= 1:
        return Tree(texts[0] if texts else "", tuple(children))
    if not children and len(texts) == 2:
        return Tree(texts[0], (), texts[1])
    raise UserError(
        f"{place}: a bracket holds a label and then either a word or other brackets. "
        f"Received: {' '.join(texts)!r} and {counted(len(children), 'bracket')}"
    )


def simplify(tree: Tree) -> Tree | None:
    """Strips what parsers do not predict: traces, function tags, the top bracket.

    Args:
        tree: As an annotator wrote it.

    Returns:
        The tree without empty constituents, with plain labels, or None if it has no
        words; `TOP` is the label of several constituents without one above them, and
        of a word without one.
    """
    if tree.word is not None:
        return None if tree.label == TRACE else tree
    kept = tuple(c for c in map(simplify, tree.children) if c is not None)
    if not kept:
        return None
    if tree.label in _TOP_LABELS:
        is_constituent = len(kept) == 1 and kept[0].word is None
        return kept[0] if is_constituent else Tree(TOP, kept)
    # NP-SBJ-1 and NP=2 are an NP; a sign that begins a label belongs to it.
    label = re.split(r"(?<=.)[-=|]", tree.label, maxsplit=1)[0]
    return Tree(label, kept)


def retag(tree: Tree, tagged: Tree) -> Tree:
    """Returns a tree with the parts of speech of another one over the same words."""
    leaves = tagged.leaves()

    def copy(node: Tree) -> Tree:
        if node.word is not None:
            return next(leaves)
        return node._replace(children=tuple(map(copy, node.children)))

    return copy(tree)


def brackets(
    tree: Tree, skip: Sequence[bool] | None = None
) -> list[tuple[str, int, int]]:
    """Returns the label, first word and end of every constituent.

    Args:
        tree: A simplified tree.
        skip: Of each word, whether it does not count. Default all count. What holds
            no word that counts is left out.
    """
    found: list[tuple[str, int, int]] = []
    number = counted = 0

    def visit(node: Tree) -> None:
        nonlocal number, counted
        start = counted
        if node.word is not None:
            counted += not (skip and skip[number])
            number += 1
        for child in node.children:
            visit(child)
        if node.children and node.label not in _TOP_LABELS and start < counted:
            found.append((node.label, start, counted))

    visit(tree)
    return found
