"""Trees as sequences of tokens, and back (Vinyals et al., 2015, section 2.2).

"Grammar as a Foreign Language" writes (S (NP (NNP John)) (VP (VBZ runs)) (. .)) as
`(S (NP XX )NP (VP XX )VP XX )S`: words leave the output, and all parts of speech are
one token, since no score counts them. From few trees a model learns sooner which word
it is at if it has to say its part of speech: `(S (NP NNP )NP (VP VBZ )VP . )S`.
"""

import re
from collections.abc import Iterator, Sequence

from t2t_keras.data.trees import MOST_NESTED, TOP, TRACE, Tree

WORD = "XX"
"""The token that stands for any word, whatever its part of speech."""

_FALLBACK = "S"
"""The commonest constituent to be a whole sentence."""

_OPENING = re.compile(r"\(([^()][^()=|-]*)")
"""A bracket and a plain label: with another one, the tree would not read back."""

_BRACKET = re.compile(r"[()]")

_MOST_OPEN = MOST_NESTED - 2
"""With a word in the innermost one and a constituent above all, a file may hold it."""


def linearize(tree: Tree, keep_tags: bool = False) -> str:
    """Writes a tree as tokens divided by spaces.

    Args:
        tree: A simplified tree.
        keep_tags: Whether a word's token is its part of speech. Default `WORD`.
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
    """Reads a tree over words from tokens, whatever the tokens are.

    What is malformed is repaired: a closing bracket closes the innermost constituent
    of its label, with all that is open inside it, or nothing if there is none; words
    that the tokens lack are put at the end of the outermost constituent, words that
    they have beyond the sentence are dropped, and so are constituents without a
    word, brackets nested too deep and labels that no tree has; several constituents
    without one above them are put into an S. A token without a bracket is a word.

    Args:
        words: The sentence, at least one word.
        tokens: What a model wrote, as of `linearize`.

    Returns:
        A tree over exactly these words, and whether nothing had to be repaired.

    Raises:
        ValueError: If there are no words.
    """
    if not words:
        raise ValueError("There is no tree over a sentence without words.")
    # Of each constituent that is open: its label and what it holds so far.
    open_: list[tuple[str, list[Tree]]] = [(TOP, [])]
    is_whole, used = True, 0

    def close() -> None:
        nonlocal is_whole
        label, children = open_.pop()
        if children:
            open_[-1][1].append(Tree(label, tuple(children)))
        else:
            is_whole = False

    for token in tokens.split():
        opening = _OPENING.fullmatch(token)
        if not _BRACKET.search(token) and used < len(words):
            # A word with a trace's tag would be gone when the tree is read again.
            tag = WORD if token == TRACE else token
            open_[-1][1].append(Tree(tag, (), words[used]))
            used += 1
        elif opening and len(open_) < _MOST_OPEN:
            open_.append((opening[1], []))
        elif token[0] == ")" and any(token[1:] == label for label, _ in open_[1:]):
            while open_[-1][0] != token[1:]:
                is_whole = False
                close()
            close()
        else:
            is_whole = False
    while len(open_) > 1:
        is_whole = False
        close()

    missing = [Tree(WORD, (), word) for word in words[used:]]
    parts = open_[0][1]
    is_constituent = len(parts) == 1 and parts[0].word is None
    if is_constituent:
        label, children = parts[0].label, [*parts[0].children, *missing]
    else:
        label, children = _FALLBACK, [*parts, *missing]
    return Tree(label, tuple(children)), is_whole and is_constituent and not missing


def choose_tree(words: Sequence[str], hypotheses: Sequence[str]) -> tuple[Tree, bool]:
    """Reads the first of several hypotheses that is a tree over the words.

    Args:
        words: The sentence, at least one word.
        hypotheses: What a model wrote, the likeliest first, at least one.

    Returns:
        That tree and True; or, if none is, the first one repaired, and False.

    Raises:
        ValueError: If there are no words.
    """
    trees = [build_tree(words, tokens) for tokens in hypotheses]
    return next((found for found in trees if found[1]), trees[0])
