"""Trees as tokens and back, and what becomes of tokens that are no tree."""

import random
import re
import sys

import pytest

from t2t_keras.data.linearized import WORD, build_tree, choose_tree, linearize
from t2t_keras.data.trees import (
    MOST_NESTED,
    Tree,
    brackets,
    read_trees,
    retag,
    simplify,
)

LABELS = ["S", "NP", "VP", "PP", "TOP", "WHNP", "-X", "N", "XX"]


def tree(label, *children):
    """Returns a constituent; a text among its children is a word of unknown tag."""
    return Tree(
        label, tuple(Tree(WORD, (), c) if isinstance(c, str) else c for c in children)
    )


def random_tree(draw, words):
    """Returns a tree over words, with chains of constituents over the same ones."""
    label = draw.choice(LABELS)
    if len(words) > 1 and draw.random() < 0.8:
        cut = draw.randrange(1, len(words))
        parts = words[:cut], words[cut:]
        return tree(label, *(random_tree(draw, part) for part in parts))
    if draw.random() < 0.4:
        return tree(label, random_tree(draw, words))
    return tree(label, *words)


def test_words_and_their_tags_leave_the_tokens():
    john = Tree("NP", (Tree("NNP", (), "John"),))
    runs = Tree("VP", (Tree("VBZ", (), "runs"),))
    sentence = Tree("S", (john, runs, Tree(".", (), ".")))
    assert linearize(sentence) == "(S (NP XX )NP (VP XX )VP XX )S"
    tagged = linearize(sentence, keep_tags=True)
    assert tagged == "(S (NP NNP )NP (VP VBZ )VP . )S"
    assert build_tree(["John", "runs", "."], tagged) == (sentence, True)


@pytest.mark.parametrize("seed", range(30))
def test_a_tree_comes_back(seed):
    draw = random.Random(seed)
    words = [f"w{number}" for number in range(draw.randrange(1, 30))]
    given = random_tree(draw, words)
    assert build_tree(words, linearize(given)) == (given, True)


def test_tags_are_all_that_is_lost():
    words = [Tree(tag, (), word) for tag, word in (("DT", "a"), ("NN", "cat"))]
    given = Tree("NP", tuple(words))
    found, is_whole = build_tree(given.words(), linearize(given))
    assert is_whole
    assert str(found) == "(NP (XX a) (XX cat))"
    assert retag(found, given) == given


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        # Nothing, and nothing of use.
        ("", "(S a b c)"),
        ("hello <unk> )S ) ( S \u2047", "(S a b c)"),
        ("(S (NP )NP )S", "(S a b c)"),
        # Words that lack, and words beyond the sentence.
        ("(S (NP XX )NP )S", "(S (NP a) b c)"),
        ("(S (NP XX XX )NP XX XX XX )S", "(S (NP a b) c)"),
        ("(S XX XX XX (NP XX )NP )S", "(S a b c)"),
        # Brackets that nobody closes, or opened.
        ("(S (NP XX XX (VP XX", "(S (NP a b (VP c)))"),
        ("(S (NP XX (PP XX )NP XX )S", "(S (NP a (PP b)) c)"),
        ("(S (NP XX )VP XX )NP XX )S", "(S (NP a b) c)"),
        (")S (S XX )NP XX XX )S )S", "(S a b c)"),
        ("(S XX )S )S XX XX", "(S (S a) b c)"),
        # A constituent of no word.
        ("(S (NP (PP )PP )NP XX XX XX )S", "(S a b c)"),
        # Several at the top, or none.
        ("(NP XX )NP (VP XX XX )VP", "(S (NP a) (VP b c))"),
        ("XX (NP XX XX )NP", "(S a (NP b c))"),
        ("XX XX XX", "(S a b c)"),
        ("(NP XX )NP", "(NP a b c)"),
        # Brackets and labels that no tree has.
        ("(S ((NP XX ))NP (N(P XX )N(P (NP) XX )S", "(S a b c)"),
        ("(S (NP-SBJ XX )NP-SBJ (NP|X XX )NP|X (NP=1 XX )S", "(S a b c)"),
        ("(SXX XX XX )S", "(SXX a b c)"),
        ("(SXX XX XX )S XX", "(SXX a b c)"),
    ],
)
def test_what_is_malformed_is_repaired(tokens, expected):
    found, is_whole = build_tree(["a", "b", "c"], tokens)
    assert re.sub(r"\([^() ]+ (\w)\)", r"\1", str(found)) == expected
    assert not is_whole


def test_the_likeliest_hypothesis_that_is_a_tree_is_taken():
    words = ["a", "b"]
    short, whole, other = "(S XX )S", "(S (NP XX )NP XX )S", "(S XX XX )S"
    assert choose_tree(words, [short, whole, other]) == build_tree(words, whole)
    assert choose_tree(words, [short, "(NP XX"]) == build_tree(words, short)


def test_any_tokens_give_a_tree_that_a_file_can_hold(tmp_path):
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
        # What has been repaired needs no repair.
        again = linearize(repaired, keep_tags=True)
        assert build_tree(words, again) == (repaired, True), text
        found.append(repaired)
    (tmp_path / "x").write_text("".join(f"(TOP {each})\n" for each in found))
    again = [simplify(each) for each in read_trees(tmp_path / "x")]
    assert [each.words() for each in again] == [each.words() for each in found]
    # Scored from the file they are scored alike.
    assert [sorted(brackets(each)) for each in again] == [
        sorted(brackets(each)) for each in found
    ]


@pytest.mark.parametrize("tokens", ["(S " * 1000 + "XX", "XX" + " (S" * 1000 + " XX"])
def test_a_model_that_repeats_itself_nests_no_deeper_than_a_file_may(tmp_path, tokens):
    found, is_whole = build_tree(["a", "b"], tokens)
    assert not is_whole
    assert found.words() == ["a", "b"]
    assert MOST_NESTED - 5 < len(brackets(found)) < MOST_NESTED
    (tmp_path / "x").write_text(f"(TOP {found})\n")
    [again] = read_trees(tmp_path / "x")
    assert simplify(again) == found


def test_a_sentence_without_words_is_refused():
    with pytest.raises(ValueError, match="no tree over a sentence without words"):
        build_tree([], "(S XX )S")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
