"""Linearization of trees to token sequences (Vinyals et al., 2015, section 2.2).

"Grammar as a Foreign Language" writes (S (NP (NNP John)) (VP (VBZ runs)) (. .)) as
`(S (NP XX )NP (VP XX )VP XX )S`. The output has no words, and one token stands for
every part of speech, because parts of speech are not scored. With few training trees,
a model aligns the output with the words sooner if it also predicts the parts of
speech: `(S (NP NNP )NP (VP VBZ )VP . )S`.
"""

import re
from collections.abc import Iterator, Sequence

from t2t_keras.data.trees import MAX_DEPTH, TOP, TRACE, Tree

WORD = "XX"
"""Placeholder token for a word of any part of speech."""

_FALLBACK = "S"
"""The most common label of a whole sentence."""

_OPENING = re.compile(r"\(([^()][^()=|-]*)")
"""A bracket and a plain label. Other labels would change when the tree is read back."""

_BRACKET = re.compile(r"[()]")

_MAX_OPEN = MAX_DEPTH - 2
"""Leaves room for a word's bracket and an added top constituent in a file of trees."""


def linearize(tree: Tree, keep_tags: bool = False) -> str:
    """Returns a tree as tokens separated by spaces.

    Args:
        tree: A simplified tree.
        keep_tags: Whether to write the part of speech for each word instead of `WORD`.
            Default False.
    """
    return " ".join(_tokens(tree, keep_tags))


def _tokens(tree: Tree, keep_tags: bool) -> Iterator[str]:
    if tree.word is not None:
        yield tree.label if keep_tags else WORD
        return
    yield f"({tree.label}"
    for child in tree.children:
        yield from _tokens(child, keep_tags)
    yield f"){tree.label}"


def build_tree(words: Sequence[str], tokens: str) -> tuple[Tree, bool]:
    """Builds a tree over words from any tokens, and repairs malformed ones.

    A token without a bracket stands for a word. Repairs:

    - A closing bracket closes the innermost constituent of its label and everything
      open inside it. Without such a constituent it is ignored.
    - Words missing from the tokens are appended to the outermost constituent.
    - Extra words, constituents without words, brackets nested too deeply and invalid
      labels are dropped.
    - Several top constituents are put into an S.

    Args:
        words: The words of the sentence, at least one.
        tokens: Output of a model, in the format of `linearize`.

    Returns:
        A tree over exactly these words, and True if no repair was needed.

    Raises:
        ValueError: If there are no words.
    """
    if not words:
        raise ValueError("A tree needs a sentence with at least one word.")
    # Label and children of each open constituent.
    open_: list[tuple[str, list[Tree]]] = [(TOP, [])]
    is_valid, used = True, 0

    def close() -> None:
        nonlocal is_valid
        label, children = open_.pop()
        if children:
            open_[-1][1].append(Tree(label, tuple(children)))
        else:
            is_valid = False

    for token in tokens.split():
        opening = _OPENING.fullmatch(token)
        if not _BRACKET.search(token) and used < len(words):
            # A word tagged as a trace would be lost when the tree is read again.
            tag = WORD if token == TRACE else token
            open_[-1][1].append(Tree(tag, (), words[used]))
            used += 1
        elif opening and len(open_) < _MAX_OPEN:
            open_.append((opening[1], []))
        elif token[0] == ")" and any(token[1:] == label for label, _ in open_[1:]):
            while open_[-1][0] != token[1:]:
                is_valid = False
                close()
            close()
        else:
            is_valid = False
    while len(open_) > 1:
        is_valid = False
        close()

    missing = [Tree(WORD, (), word) for word in words[used:]]
    parts = open_[0][1]
    is_constituent = len(parts) == 1 and parts[0].word is None
    if is_constituent:
        label, children = parts[0].label, [*parts[0].children, *missing]
    else:
        label, children = _FALLBACK, [*parts, *missing]
    return Tree(label, tuple(children)), is_valid and is_constituent and not missing


def choose_tree(words: Sequence[str], hypotheses: Sequence[str]) -> tuple[Tree, bool]:
    """Returns the first hypothesis that is a valid tree over the words.

    Args:
        words: The words of the sentence, at least one.
        hypotheses: Outputs of a model, most probable first, at least one.

    Returns:
        That tree and True. If no hypothesis is valid, the first one after repair and
        False.

    Raises:
        ValueError: If there are no words.
    """
    trees = [build_tree(words, tokens) for tokens in hypotheses]
    return next((found for found in trees if found[1]), trees[0])
