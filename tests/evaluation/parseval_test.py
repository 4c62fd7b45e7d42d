"""Tests of bracket scores against hand-computed values and PYEVALB."""

import random
import sys
from pathlib import Path

import pytest
from PYEVALB import parser, scorer, summary

from t2t_keras.data.trees import Tree, brackets, read_trees, simplify
from t2t_keras.evaluation.parseval import score_brackets

TREEBANK = Path(__file__).parents[3] / "shared" / "data" / "treebank"
PUNCTUATION = [",", ":", "``", "''", "."]
LABELS = ["S", "NP", "VP", "PP", "ADVP", "PRT", "ADJP"]


def tree(label, *children):
    """Returns a constituent. Children may be strings, "TAG/word" or "word"."""
    parts = []
    for child in children:
        if isinstance(child, str):
            tag, _, word = child.rpartition("/")
            child = Tree(tag or "NN", (), word)
        parts.append(child)
    return Tree(label, tuple(parts))


def scored(gold, parsed):
    """Returns the numbers of matched, parsed and annotated brackets."""
    score = score_brackets([gold], [parsed])
    return score.matched, score.parsed, score.gold


def test_scores_equal_hand_computed_values():
    gold = tree("S", tree("NP", "a"), tree("VP", "b", tree("NP", "c", "d")))
    near = tree("S", tree("NP", "a"), tree("VP", "b", "c", tree("PP", "d")))
    score = score_brackets([gold, gold], [near, gold])
    # S, the upper NP and VP match. The lower NP is missing and PP is wrong.
    assert score == (2, 1, 3 + 4, 4 + 4, 4 + 4)
    assert score.precision == score.recall == score.f1 == pytest.approx(87.5)
    flat = tree("S", "a", "b", "c", "d")
    score = score_brackets([gold], [flat])
    assert (score.precision, score.recall) == (100, 25)
    assert score.f1 == pytest.approx(2 * 100 * 25 / 125)
    assert str(score) == (
        "F1 40.00  precision 100.00  recall 25.00  exact 0.00  "
        "(labelled brackets, COLLINS.prm, 1 sentence)"
    )


@pytest.mark.parametrize(
    ("gold", "parsed", "expected"),
    [
        pytest.param(
            tree("S", tree("NP", "a"), ",/,", tree("VP", "b"), "./."),
            tree("S", tree("NP", "a", ",/,"), tree("VP", "b", "./.")),
            (3, 3, 3),
            id="punctuation belongs to no bracket",
        ),
        pytest.param(
            tree("S", "``/``", tree("NP", "a"), "''/''", ":/--", "b"),
            tree("S", "``", tree("NP", "a", "''", "--"), "b"),
            (2, 2, 2),
            id="the annotator's tags define punctuation",
        ),
        pytest.param(
            tree("S", tree("NP", "a"), "NN/,", "b"),
            tree("S", tree("NP", "a", ",/,"), "b"),
            (1, 2, 2),
            id="a comma with another tag is a word",
        ),
        pytest.param(
            tree("S", "a", tree("PRN", ":/--", ",/,"), "b"),
            tree("S", "a", "--", tree("NP", ","), "b"),
            (1, 1, 1),
            id="brackets around punctuation alone do not count",
        ),
        pytest.param(
            tree("S", "-LRB-/-LRB-", tree("NP", "a"), "$/$", "#/#"),
            tree("S", tree("NP", "-LRB-", "a"), "$", "#"),
            (1, 2, 2),
            id="brackets and currency signs are words",
        ),
        pytest.param(
            tree("VP", "a", tree("PRT", "b"), tree("ADVP", "c")),
            tree("VP", "a", tree("ADVP", "b"), tree("PRT", "c")),
            (3, 3, 3),
            id="PRT counts as ADVP",
        ),
        pytest.param(
            tree("TOP", tree("S", "a"), tree("S", "b")),
            tree("TOP", tree("TOP", tree("S", "a"), "b")),
            (1, 1, 2),
            id="TOP is not a constituent",
        ),
        pytest.param(
            tree("NP", tree("NP", tree("NP", "a"))),
            tree("NP", tree("NP", "a")),
            (2, 2, 3),
            id="equal brackets are counted separately",
        ),
        pytest.param(
            tree("S", tree("VP", "a")),
            tree("VP", tree("S", "a")),
            (2, 2, 2),
            id="brackets around the same words have no order",
        ),
        pytest.param(
            tree("S", tree("NP", "a", "b"), "c"),
            tree("S", tree("VP", "a", "b"), "c"),
            (1, 2, 2),
            id="labels count",
        ),
    ],
)
def test_rules_of_collins_prm(gold, parsed, expected):
    assert scored(gold, parsed) == expected
    exact = score_brackets([gold], [parsed]).exact
    assert exact == (len(set(expected)) == 1)


def test_trees_without_matching_brackets_score_zero():
    word = tree("TOP", "UH/yes")
    assert score_brackets([word], [word]) == (1, 1, 0, 0, 0)
    assert score_brackets([word], [word]).f1 == 0
    assert scored(word, tree("S", "yes")) == (0, 1, 0)
    score = score_brackets([tree("S", "a")], [tree("NP", "a")])
    assert (score.precision, score.recall, score.f1) == (0, 0, 0)


@pytest.mark.parametrize(
    ("gold", "parsed", "message"),
    [
        ([], [], "at least one. Received: 0 and 0"),
        ([tree("S", "a")], [], "Received: 0 and 1"),
        ([tree("S", "a")], [tree("S", "a")] * 2, "Received: 2 and 1"),
        (
            [tree("S", "a"), tree("S", "a", "b")],
            [tree("S", "a"), tree("S", "a")],
            "sentence 2 have different words: 'a' and 'a b'",
        ),
        ([tree("S", "a", "b")], [tree("S", "b", "a")], "sentence 1 .*'b a' and 'a b'"),
        # evalb drops punctuation before it compares words; here a comma is a word.
        ([tree("S", "a", ",/,")], [tree("S", "a")], "different words: 'a' and 'a ,'"),
    ],
)
def test_trees_that_cannot_be_compared_are_rejected(gold, parsed, message):
    with pytest.raises(ValueError, match=message):
        score_brackets(gold, parsed)


def random_tree(draw, leaves):
    label = draw.choice(LABELS)
    if len(leaves) < 2 or draw.random() < 0.2:
        return tree(label, *leaves)
    cut = draw.randrange(1, len(leaves))
    parts = (leaves[:cut], leaves[cut:])
    return tree(
        label,
        *(
            p[0] if len(p) == 1 and draw.random() < 0.5 else random_tree(draw, p)
            for p in parts
        ),
    )


def perturbed(draw, node, is_top=True):
    """Returns a tree with some labels changed and some brackets removed or added."""
    if node.word is not None:
        return [node]
    children = [part for c in node.children for part in perturbed(draw, c, False)]
    if len(children) > 2 and draw.random() < 0.2:
        cut = draw.randrange(1, len(children))
        children = [tree(draw.choice(LABELS), *children[:cut]), *children[cut:]]
    if draw.random() < 0.2 and not is_top:
        return children
    label = draw.choice(LABELS) if draw.random() < 0.2 else node.label
    return [tree(label, *children)]


def for_pyevalb(node, skip):
    """Returns a tree as input for PYEVALB, with the rules of COLLINS.prm applied.

    Args:
        node: The tree.
        skip: Iterator over the words: whether each is punctuation.
    """
    if node.word is not None:
        return "" if next(skip) else f"(X {node.word})"
    inside = "".join(for_pyevalb(child, skip) for child in node.children)
    label = "ADVP" if node.label == "PRT" else node.label
    return f"({label} {inside})" if inside else ""


def check_against_pyevalb(gold, parsed):
    """Asserts that our scores equal PYEVALB's and returns the number of trees compared.

    PYEVALB counts equal brackets once, so trees with equal brackets are skipped.
    """
    pairs, results = [], []
    for right, found in zip(gold, parsed, strict=True):
        skip = [leaf.label in PUNCTUATION for leaf in right.leaves()]
        texts = [for_pyevalb(each, iter(skip)) for each in (right, found)]
        if not all(texts):
            continue
        trees = [parser.create_from_bracket_string(text) for text in texts]
        nodes = [each.non_terminal_labels for each in trees]
        if all(len(set(each)) == len(each) for each in nodes):
            pairs.append((right, found))
            results.append(scorer.Scorer().score_trees(*trees))
    ours = score_brackets(*zip(*pairs, strict=True))
    theirs = summary.summary(results)
    assert ours.matched == sum(result.matched_brackets for result in results)
    assert ours.parsed == sum(result.test_brackets for result in results)
    assert ours.gold == sum(result.gold_brackets for result in results)
    assert ours.precision == pytest.approx(theirs.bracket_prec)
    assert ours.recall == pytest.approx(theirs.bracket_recall)
    assert ours.f1 == pytest.approx(theirs.bracker_fmeasure)
    exact = 100 * ours.exact / ours.sentences
    assert exact == pytest.approx(theirs.complete_match)
    assert 20 < ours.f1 < 99
    return len(pairs)


def test_scores_of_random_trees_match_pyevalb():
    draw = random.Random(0)
    gold, parsed = [], []
    for _ in range(400):
        tags = draw.choices(["NN", "VB", *PUNCTUATION], k=draw.randrange(2, 25))
        leaves = [Tree(tag, (), f"w{number}") for number, tag in enumerate(tags)]
        gold.append(random_tree(draw, leaves))
        parsed += perturbed(draw, gold[-1])
    assert [len(each.words()) for each in gold] == [len(p.words()) for p in parsed]
    assert check_against_pyevalb(gold, parsed) > 150


@pytest.mark.skipif(not TREEBANK.exists(), reason="needs shared/data/treebank")
def test_scores_of_real_trees_match_pyevalb():
    draw = random.Random(0)
    gold = [simplify(each) for each in read_trees(TREEBANK / "dev.mrg.gz")]
    score = score_brackets(gold, gold)
    assert score.exact == score.sentences == len(gold)
    assert score.precision == score.recall == score.f1 == 100
    # Brackets around punctuation are not counted.
    assert 0 < score.gold <= sum(len(brackets(each)) for each in gold)
    parsed = [found for each in gold for found in perturbed(draw, each)]
    assert check_against_pyevalb(gold, parsed) > 100


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
