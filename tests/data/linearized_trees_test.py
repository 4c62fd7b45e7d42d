"""Tests of linearized trees and of the repair of malformed ones."""

import random
import re
import sys

import pytest

from t2t_keras.data.linearized_trees import WORD, build_tree, choose_tree, linearize
from t2t_keras.data.trees import (
    MAX_DEPTH,
    Tree,
    brackets,
    read_trees,
    retag,
    simplify,
)

LABELS = ["S", "NP", "VP", "PP", "TOP", "WHNP", "-X", "N", "XX"]


def tree(label, *children):
    """Returns a constituent. Children that are strings become words without a tag."""
    return Tree(
        label, tuple(Tree(WORD, (), c) if isinstance(c, str) else c for c in children)
    )


def random_tree(draw, words):
    """Returns a random tree over words, including chains of unary constituents."""
    label = draw.choice(LABELS)
    if len(words) > 1 and draw.random() < 0.8:
        cut = draw.randrange(1, len(words))
        parts = words[:cut], words[cut:]
        return tree(label, *(random_tree(draw, part) for part in parts))
    if draw.random() < 0.4:
        return tree(label, random_tree(draw, words))
    return tree(label, *words)


def test_linearize_drops_words_and_optionally_tags():
    john = Tree("NP", (Tree("NNP", (), "John"),))
    runs = Tree("VP", (Tree("VBZ", (), "runs"),))
    sentence = Tree("S", (john, runs, Tree(".", (), ".")))
    assert linearize(sentence) == "(S (NP XX )NP (VP XX )VP XX )S"
    tagged = linearize(sentence, keep_tags=True)
    assert tagged == "(S (NP NNP )NP (VP VBZ )VP . )S"
    assert build_tree(["John", "runs", "."], tagged) == (sentence, True)


@pytest.mark.parametrize("seed", range(30))
def test_build_tree_inverts_linearize(seed):
    draw = random.Random(seed)
    words = [f"w{number}" for number in range(draw.randrange(1, 30))]
    given = random_tree(draw, words)
    assert build_tree(words, linearize(given)) == (given, True)


def test_only_tags_are_lost():
    words = [Tree(tag, (), word) for tag, word in (("DT", "a"), ("NN", "cat"))]
    given = Tree("NP", tuple(words))
    found, is_valid = build_tree(given.words(), linearize(given))
    assert is_valid
    assert str(found) == "(NP (XX a) (XX cat))"
    assert retag(found, given) == given


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        # No tokens, or none that is useful.
        ("", "(S a b c)"),
        ("hello <unk> )S ) ( S \u2047", "(S a b c)"),
        ("(S (NP )NP )S", "(S a b c)"),
        # Missing and extra words.
        ("(S (NP XX )NP )S", "(S (NP a) b c)"),
        ("(S (NP XX XX )NP XX XX XX )S", "(S (NP a b) c)"),
        ("(S XX XX XX (NP XX )NP )S", "(S a b c)"),
        # Brackets that are never closed or never opened.
        ("(S (NP XX XX (VP XX", "(S (NP a b (VP c)))"),
        ("(S (NP XX (PP XX )NP XX )S", "(S (NP a (PP b)) c)"),
        ("(S (NP XX )VP XX )NP XX )S", "(S (NP a b) c)"),
        (")S (S XX )NP XX XX )S )S", "(S a b c)"),
        ("(S XX )S )S XX XX", "(S (S a) b c)"),
        # A constituent without words.
        ("(S (NP (PP )PP )NP XX XX XX )S", "(S a b c)"),
        # Several top constituents, or none.
        ("(NP XX )NP (VP XX XX )VP", "(S (NP a) (VP b c))"),
        ("XX (NP XX XX )NP", "(S a (NP b c))"),
        ("XX XX XX", "(S a b c)"),
        ("(NP XX )NP", "(NP a b c)"),
        # Invalid brackets and labels.
        ("(S ((NP XX ))NP (N(P XX )N(P (NP) XX )S", "(S a b c)"),
        ("(S (NP-SBJ XX )NP-SBJ (NP|X XX )NP|X (NP=1 XX )S", "(S a b c)"),
        ("(SXX XX XX )S", "(SXX a b c)"),
        ("(SXX XX XX )S XX", "(SXX a b c)"),
    ],
)
def test_malformed_tokens_are_repaired(tokens, expected):
    found, is_valid = build_tree(["a", "b", "c"], tokens)
    assert re.sub(r"\([^() ]+ (\w)\)", r"\1", str(found)) == expected
    assert not is_valid


def test_choose_tree_takes_the_first_valid_hypothesis():
    words = ["a", "b"]
    short, valid, other = "(S XX )S", "(S (NP XX )NP XX )S", "(S XX XX )S"
    assert choose_tree(words, [short, valid, other]) == build_tree(words, valid)
    assert choose_tree(words, [short, "(NP XX"]) == build_tree(words, short)


def test_random_tokens_give_a_tree_that_survives_a_file(tmp_path):
    draw = random.Random(0)
    tokens = [WORD, WORD, WORD, "(S", "(S", "(NP", "(VP", ")S", ")NP", ")VP", "(TOP"]
    tokens += [
        ")TOP",
        "(",
        ")",
        "((S",
        "(S)",
        ")(",
        "x",
        "(-NONE-",
        "(NP-1",
        "(|",
        "=(",
        "-NONE-",
        "-LRB-",
    ]
    found = []
    for _ in range(500):
        words = [f"w{number}" for number in range(draw.randrange(1, 9))]
        text = " ".join(draw.choices(tokens, k=draw.randrange(40)))
        repaired, _ = build_tree(words, text)
        assert repaired.words() == words, text
        # A repaired tree needs no further repair.
        again = linearize(repaired, keep_tags=True)
        assert build_tree(words, again) == (repaired, True), text
        found.append(repaired)
    (tmp_path / "x").write_text("".join(f"(TOP {each})\n" for each in found))
    again = [simplify(each) for each in read_trees(tmp_path / "x")]
    assert [each.words() for each in again] == [each.words() for each in found]
    # The trees read from the file have the same brackets to score.
    assert [sorted(brackets(each)) for each in again] == [
        sorted(brackets(each)) for each in found
    ]


@pytest.mark.parametrize("tokens", ["(S " * 1000 + "XX", "XX" + " (S" * 1000 + " XX"])
def test_repeated_brackets_stay_within_the_maximum_depth(tmp_path, tokens):
    found, is_valid = build_tree(["a", "b"], tokens)
    assert not is_valid
    assert found.words() == ["a", "b"]
    assert MAX_DEPTH - 5 < len(brackets(found)) < MAX_DEPTH
    (tmp_path / "x").write_text(f"(TOP {found})\n")
    [again] = read_trees(tmp_path / "x")
    assert simplify(again) == found


def test_sentence_without_words_is_rejected():
    with pytest.raises(ValueError, match="at least one word"):
        build_tree([], "(S XX )S")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
