"""Tests of the treebank corpus."""

import collections
import gzip
import re
import sys
from pathlib import Path

import pytest

from t2t_keras.data.corpus_catalog import open_corpus
from t2t_keras.data.linearized_trees import build_tree, linearize
from t2t_keras.data.treebank import TreebankCorpus
from t2t_keras.data.trees import read_trees, retag, simplify

TREEBANK = Path(__file__).parents[3] / "shared" / "data" / "treebank"
TREES = """
( (S (NP-SBJ (DT the) (NN cat)) (VP (VBD saw) (NP (NNP Tom))) (. .)) )
( (S (NP-SBJ (-NONE- *)) (VP (VB go)) (. !)) )
( (S (NP-SBJ (-NONE- *))) )
( (S (NP (PRP I)) (VP (VBP see) (NP (NP (DT a) (NN dog)) (PP (IN at) (NP (NN home)))))))
"""
PAIRS = [
    ("the cat saw Tom .", "(S (NP XX XX )NP (VP XX (NP XX )NP )VP XX )S"),
    ("go !", "(S (VP XX )VP XX )S"),
    (
        "I see a dog at home",
        "(S (NP XX )NP (VP XX (NP (NP XX XX )NP (PP XX (NP XX )NP )PP )NP )VP )S",
    ),
]


@pytest.fixture
def train(tmp_path):
    (tmp_path / "train.mrg").write_text(TREES)
    return str(tmp_path / "train.mrg")


def test_pairs_are_sentences_and_linearized_trees(tmp_path, train):
    more = tmp_path / "more"
    more.mkdir()
    (more / "1.mrg.gz").write_bytes(gzip.compress(b"( (FRAG (UH no)) )"))
    (more / "2.mrg").write_text("")
    corpus = open_corpus(
        "treebank", "en", "de", trees={"train": [train, str(more)], "test": [train]}
    )
    assert corpus.name == "treebank"
    assert (corpus.source_lang, corpus.target_lang) == ("en", "trees")
    assert list(corpus.splits()) == ["train", "test"]
    pairs = [*PAIRS, ("no", "(FRAG XX )FRAG")]
    assert list(corpus.read("train")) == pairs
    assert list(corpus.read("train")) == pairs
    assert list(corpus.read("test")) == PAIRS


def test_tree_tags_adds_parts_of_speech(train):
    corpus = open_corpus(
        "treebank", "en", "de", trees={"train": [train]}, tree_tags=True
    )
    for (words, tagged), (_, plain) in zip(corpus.read("train"), PAIRS, strict=True):
        tokens = zip(tagged.split(), plain.split(), strict=True)
        tags = [tag for tag, token in tokens if token == "XX"]
        assert len(tags) == len(words.split())
        assert "XX" not in tags


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ({}, "A treebank corpus needs --train_trees"),
        ({"train": [], "dev": ["x"]}, "A treebank corpus needs --train_trees"),
        ({"train": ["/no/such"]}, "No such file or folder: /no/such"),
        ({"train": ["{0}/train.mrg"], "dev": ["/no/such"]}, "folder: /no/such"),
        ({"train": ["{0}/empty"]}, "{0}/empty has no files of trees"),
    ],
)
def test_missing_files_are_rejected_before_reading(tmp_path, train, paths, message):
    (tmp_path / "empty").mkdir()
    paths = {
        split: [name.format(tmp_path) for name in names]
        for split, names in paths.items()
    }
    with pytest.raises(ValueError, match=re.escape(message.format(tmp_path))):
        open_corpus("treebank", "en", "de", trees=paths)


def test_invalid_tree_raises_an_error_with_file_and_line(tmp_path, train):
    Path(train).write_text(TREES + "( (S (NP (NN x))\n")
    corpus = open_corpus("treebank", "en", "de", trees={"train": [train]})
    with pytest.raises(ValueError, match=rf"{train}:6: the tree .* has no end"):
        list(corpus.read("train"))


def productions(words, tokens):
    """Counts the productions (label and child labels) of the tree of a pair."""
    tree, is_valid = build_tree(words.split(), tokens)
    assert is_valid
    found = collections.Counter()

    def visit(node):
        if node.word is None:
            found[node.label, tuple(c.label for c in node.children)] += 1
            for child in node.children:
                visit(child)

    visit(tree)
    return found


def test_substitutions_follow_each_tree_and_reuse_known_parts(train):
    corpus = TreebankCorpus("en", {"train": [train], "dev": [train]}, substitutions=50)
    pairs = list(corpus.read("train"))
    assert pairs[::51] == PAIRS
    assert len(pairs) == 51 * len(PAIRS)
    assert list(corpus.read("dev")) == PAIRS
    known = set().union(*(productions(*pair) for pair in PAIRS))
    words = {word for sentence, _ in PAIRS for word in sentence.split()}
    for sentence, tokens in pairs:
        # Substitution recombines known productions and creates no new ones.
        assert set(productions(sentence, tokens)) <= known
        assert set(sentence.split()) <= words
    made = set(pairs) - set(PAIRS)
    assert len(made) > 10
    assert any("Tom" in sentence and "dog" in sentence for sentence, _ in made)
    # A replacement is at most twice as long as the original, here "Tom".
    assert any("saw a dog" in sentence for sentence, _ in made)
    assert not any("saw a dog at" in sentence for sentence, _ in made)


def test_substitutions_depend_only_on_the_seed(train):
    def read(seed):
        corpus = TreebankCorpus("en", {"train": [train]}, substitutions=5, seed=seed)
        first = list(corpus.read("train"))
        assert list(corpus.read("train")) == first
        return first

    assert read(1) == read(1)
    assert read(1) != read(2)


@pytest.mark.skipif(not TREEBANK.exists(), reason="needs shared/data/treebank")
@pytest.mark.parametrize(("name", "number"), [("train", 3401), ("dev", 268)])
def test_real_trees_survive_linearization(name, number):
    trees = [simplify(tree) for tree in read_trees(TREEBANK / f"{name}.mrg.gz")]
    assert len(trees) == number
    labels = set()
    for tree in trees:
        tokens = linearize(tree)
        found, is_valid = build_tree(tree.words(), tokens)
        assert is_valid
        assert retag(found, tree) == tree
        labels.update(re.findall(r"\((\S+)", tokens))
    assert {"S", "NP", "VP", "SBAR", "PRN"} < labels
    assert not [label for label in labels if not re.fullmatch("[A-Z]+", label)]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
