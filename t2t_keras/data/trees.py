"""Constituency trees in the bracketed format of the Penn Treebank (section 6.3)."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from t2t_keras.data.text_lines import read_lines
from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.plurals import counted

TOP = "TOP"
"""Label of a bracket around a whole sentence that is not a constituent."""

MAX_DEPTH = 200
"""Maximum number of open brackets. Trees of real sentences need far fewer."""

_TOP_LABELS = frozenset({"", TOP, "ROOT", "S1"})
TRACE = "-NONE-"
"""Part of speech of a trace, which marks where a word was moved from."""
_TOKEN = re.compile(r"[()]|[^\s()]+")
_SUFFIXES = (".mrg", ".mrg.gz", ".trees", ".trees.gz", ".txt", ".txt.gz")


class Tree(NamedTuple):
    """A constituent, or a word with its part of speech.

    Attributes:
        label: Label of the constituent, or part of speech of the word.
        children: Constituents and words below a constituent; empty for a word.
        word: The word, or None for a constituent.
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def leaves(self) -> Iterator["Tree"]:
        """Yields the words with their parts of speech, from left to right."""
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
    """Returns the files of trees at some paths.

    Args:
        paths: Files and folders. Folders are searched recursively for names that end in
            .mrg, .trees or .txt, with or without .gz.

    Raises:
        UserError: If a path does not exist or a folder has no files of trees.
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
                f"{path} has no files of trees. Their names must end in "
                f"{', '.join(_SUFFIXES)}."
            )
        files += found
    return files


def read_trees(path: str | Path, content: BinaryIO | None = None) -> Iterator[Tree]:
    """Yields the trees of a file. A tree may span several lines.

    Args:
        path: The file, plain or .gz.
        content: Stream to read instead of opening `path`. Default None.

    Raises:
        UserError: If brackets do not match or the text is not a tree. The message names
            the file and the line.
    """
    # Line number, texts and children of each open bracket.
    open_: list[tuple[int, list[str], list[Tree]]] = []
    number = 0
    for number, line in enumerate(read_lines(path, content), 1):
        for token in _TOKEN.findall(line):
            if token == "(":
                open_.append((number, [], []))
                if len(open_) > MAX_DEPTH:
                    raise UserError(
                        f"{path}:{number}: more than {MAX_DEPTH} open brackets."
                    )
            elif not open_:
                raise UserError(f"{path}:{number}: {token!r} is outside any tree.")
            elif token != ")" and open_[-1][2]:
                raise UserError(
                    f"{path}:{number}: {token!r} follows a bracket and has no bracket "
                    "of its own."
                )
            elif token != ")":
                open_[-1][1].append(token)
            else:
                start, texts, children = open_.pop()
                tree = _tree(texts, children, f"{path}:{start}")
                if open_:
                    open_[-1][2].append(tree)
                else:
                    yield tree
    if open_:
        raise UserError(f"{path}:{open_[0][0]}: the tree that starts here has no end.")


def _tree(texts: list[str], children: list[Tree], position: str) -> Tree:
    if children and len(texts) <= 1:
        return Tree(texts[0] if texts else "", tuple(children))
    if not children and len(texts) == 2:
        return Tree(texts[0], (), texts[1])
    raise UserError(
        f"{position}: a bracket must contain a label and then either a word or other "
        f"brackets. Received: {' '.join(texts)!r} and "
        f"{counted(len(children), 'bracket')}"
    )


def simplify(tree: Tree) -> Tree | None:
    """Removes what parsers do not predict: traces, function tags, the top bracket.

    Args:
        tree: A tree as annotated.

    Returns:
        The tree with plain labels and without empty constituents, or None if it has no
        words. Several top constituents, or a word without a constituent, are put under
        the label `TOP`.
    """
    if tree.word is not None:
        return None if tree.label == TRACE else tree
    kept = tuple(c for c in map(simplify, tree.children) if c is not None)
    if not kept:
        return None
    if tree.label in _TOP_LABELS:
        is_constituent = len(kept) == 1 and kept[0].word is None
        return kept[0] if is_constituent else Tree(TOP, kept)
    # NP-SBJ-1 and NP=2 become NP. A sign at the start belongs to the label.
    label = re.split(r"(?<=.)[-=|]", tree.label, maxsplit=1)[0]
    return Tree(label, kept)


def retag(tree: Tree, tagged: Tree) -> Tree:
    """Returns `tree` with the parts of speech of `tagged`, a tree of the same words."""
    leaves = tagged.leaves()

    def copy(node: Tree) -> Tree:
        if node.word is not None:
            return next(leaves)
        return node._replace(children=tuple(map(copy, node.children)))

    return copy(tree)


def brackets(
    tree: Tree, skip: Sequence[bool] | None = None
) -> list[tuple[str, int, int]]:
    """Returns the label, first word and end (exclusive) of every constituent.

    Args:
        tree: A simplified tree.
        skip: Whether to ignore each word. Constituents without other words are left
            out. Default None (ignore none).
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
