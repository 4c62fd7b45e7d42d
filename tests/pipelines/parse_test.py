"""Tests of t2t-parse: a parser is trained on trees, run and scored."""

import gzip
import json
import re
import shutil
import sys

import command
import numpy as np
import pytest

from t2t_keras.data.trees import read_trees, simplify

TREES = """
( (S (NP-SBJ (DT the) (NN cat)) (VP (VBD saw) (NP (NNP Tom))) (. .)) )
( (S (NP-SBJ (DT the) (NN dog)) (VP (VBD slept)) (. .)) )
( (S
    (NP-SBJ (PRP I))
    (VP (VBD saw) (NP (DT a) (NN dog)) (PP-LOC (IN at) (NP (NN home))))
    (. !)) )
( (S (NP-SBJ (-NONE- *)) (VP (VB go) (NP (NN home))) (. !)) )
( (S (NP-SBJ (-NONE- *))) )
( (NP (NNP Tom) (, ,) (DT the) (NN cat)) )
"""
MODEL = ["--num_layers=2", "--d_model=64", "--d_ff=64", "--num_heads=2", "--pre_norm"]
MODEL += ["--batch_tokens=256", "--learning_rate=0.4", "--warmup_steps=50"]
# The parser must memorize its few trees.
MODEL += ["--dropout=0", "--label_smoothing=0", "--train_steps=300"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Trees in a folder and in a file, and a parser that has memorized them."""
    work = tmp_path_factory.mktemp("work")
    (work / "trees").mkdir()
    (work / "trees" / "all.mrg.gz").write_bytes(gzip.compress(TREES.encode()))
    (work / "dev.mrg").write_text(TREES)
    prepared = command.stage(
        "prepare",
        "--corpus=treebank",
        "--vocab_size=80",
        "--tree_substitutions=1",
        f"--data_dir={work}/data",
        f"--train_trees={work}/trees",
        f"--dev_trees={work}/dev.mrg",
    )
    assert "train: kept 10 pairs" in prepared.stderr
    assert "dev: kept 5 pairs" in prepared.stderr
    directories = [f"--data_dir={work}/data", f"--model_dir={work}/model"]
    command.stage("train", *directories, *MODEL, "--bleu_sentences=0")
    return work


def test_sentences_of_gold_trees_are_parsed_scored_and_saved(work):
    target = (work / "data" / "dev.target.txt").read_text().splitlines()
    assert target[1] == "(S (NP XX XX )NP (VP XX )VP XX )S"
    process = command.stage(
        "parse", f"--model_dir={work}/model", f"--trees={work}/trees"
    )
    assert process.stdout == (
        "F1 100.00  precision 100.00  recall 100.00  exact 100.00  "
        "(labelled brackets, COLLINS.prm, 5 sentences)\n"
    )
    assert "repaired" not in process.stderr
    parsed = work / "model" / "parsed.trees.trees"
    assert f"Wrote the trees: {parsed}" in process.stderr
    # With the gold tags, by which evalb recognizes punctuation.
    first = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (NNP Tom))) (. .)))\n"
    assert parsed.read_text().startswith(first)
    gold = [simplify(tree) for tree in read_trees(work / "dev.mrg")]
    assert list(map(simplify, read_trees(parsed))) == list(filter(None, gold))
    record = json.loads((work / "model" / "scores.parsed.trees.json").read_text())
    assert record["score"]["f1"] == 100
    assert record["score"]["sentences"] == 5
    assert record["weights"] == ["weights-00000300.npz"]
    # The paper's search options.
    assert record["beam_size"] == 21
    assert record["length_penalty"] == 0.3
    assert record["max_extra_length"] == 300
    # The trees of another parser are scored by the same rules.
    flat = work / "flat.trees"
    flat.write_text(re.sub(r"\(NP((?: \(\w+ \w+\))+)\)", r"\1", parsed.read_text()))
    shown = command.stage("parse", f"--parsed={flat}", f"--trees={work}/dev.mrg").stdout
    assert "precision 100.00  recall 58.82  exact 20.00" in shown


def test_each_input_line_has_an_output_line(work):
    lines = ["the dog slept .", "", "I saw (Tom) at home", " \t", "über \u2028 x !"]
    expected = ["the dog slept .", "", "I saw -LRB-Tom-RRB- at home", "", "über x !"]
    shown = command.stage(
        "parse", f"--model_dir={work}/model", stdin="\n".join(lines).encode() + b"\n"
    ).stdout
    output = shown.split("\n")
    assert output.pop() == ""
    assert output[0] == ("(TOP (S (NP (XX the) (XX dog)) (VP (XX slept)) (XX .)))")
    (work / "printed").write_text(shown)
    trees = iter(read_trees(work / "printed"))
    for line, words in zip(output, expected, strict=True):
        assert (" ".join(next(trees).words()) if line else "") == words


def test_line_that_cannot_be_parsed_is_empty_and_reported(work):
    lines = b"the dog slept .\nthe d\xffog slept .\nTom slept .\n"
    process = command.stage("parse", f"--model_dir={work}/model", stdin=lines, status=2)
    assert [bool(line) for line in process.stdout.split("\n")] == [
        True,
        False,
        True,
        False,
    ]
    assert process.stderr.endswith("standard input:2: invalid UTF-8: not parsed.\n")
    shutil.copytree(work / "model", work / "broken")
    path = work / "broken" / "checkpoints" / "weights-00000300.npz"
    arrays = dict(np.load(path))
    next(array for array in arrays.values() if array.ndim > 1)[7, 3] = np.nan
    np.savez(path, **arrays)
    model = f"--model_dir={work}/broken"
    process = command.stage("parse", model, stdin=b"Tom slept .\n\n", status=1)
    assert process.stdout == "\n\n"
    assert "The model is broken" in process.stderr
    process = command.stage("parse", model, f"--trees={work}/dev.mrg", status=1)
    # A flat tree takes the place of each.
    assert "exact 0.00" in process.stdout
    parsed = list(read_trees(work / "broken" / "parsed.dev.trees"))
    assert len(parsed) == 5


def test_truncated_output_is_repaired_to_a_tree(work):
    source, output = work / "source.txt", work / "output.gz"
    source.write_text("the cat saw Tom .\nI saw a dog at home !\n")
    process = command.stage(
        "parse",
        f"--model_dir={work}/model",
        f"--input={source}",
        f"--output={output}",
        "--max_extra_length=1",
        "--beam_size=2",
    )
    assert process.stdout == ""
    assert "2 trees were malformed and had to be repaired." in process.stderr
    parsed = [" ".join(tree.words()) for tree in read_trees(output)]
    assert parsed == source.read_text().splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give either --model_dir, or --parsed and --trees."),
        (
            ["--model_dir={0}/model", "--parsed={0}/dev.mrg"],
            "Give either --model_dir, or --parsed and --trees.",
        ),
        (
            ["--model_dir={0}/model", "--trees={0}/dev.mrg,{0}/open"],
            "error: {0}/open:2: the tree that starts here has no end.",
        ),
        (
            ["--model_dir={0}/model", "--trees={0}/traces"],
            "error: No tree with words found in {0}/traces.",
        ),
        (
            ["--parsed={0}/other", "--trees={0}/dev.mrg"],
            "The trees of sentence 2 have different words",
        ),
        (["--model_dir={0}/no"], "{0}/no holds no model"),
        (
            ["--model_dir={0}/model", "--trees={0}/dev.mrg", "--input={0}/dev.mrg"],
            "Give either --input or --trees",
        ),
        (
            ["--model_dir={0}/translator"],
            "{0}/translator is not a parser: it was trained on --corpus=text",
        ),
    ],
)
def test_user_errors_are_named(work, arguments, message):
    (work / "open").write_text("(S (X a))\n(S (X a)\n")
    (work / "traces").write_text("( (S (NP (-NONE- *))) )\n")
    (work / "other").write_text(TREES.replace("(NN dog)", "(NN god)"))
    if "translator" in message:
        shutil.copytree(work / "model", work / "translator")
        path = work / "translator" / "config.json"
        config = json.loads(path.read_text())
        config["data"]["corpus"] = "text"
        path.write_text(json.dumps(config))
    before = sorted((work / "model").iterdir())
    rejected = command.stage(
        "parse", *(argument.format(work) for argument in arguments), status=2
    )
    assert message.format(work) in rejected.stderr
    assert rejected.stdout == ""
    assert sorted((work / "model").iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus=treebank"], "A treebank corpus needs --train_trees."),
        (["--train_trees=x"], "--train_trees needs --corpus=treebank. Received: cldr"),
        (
            ["--corpus=treebank", "--train_trees={0}/bad.mrg"],
            "error: {0}/bad.mrg:2: ')' is outside any tree.",
        ),
    ],
)
def test_prepare_rejects_invalid_trees_and_writes_nothing(tmp_path, arguments, message):
    (tmp_path / "bad.mrg").write_text("(S (X a))\n(S (X a)))\n")
    rejected = command.stage(
        "prepare",
        f"--data_dir={tmp_path}/data",
        *(argument.format(tmp_path) for argument in arguments),
        status=2,
    )
    assert message.format(tmp_path) in rejected.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.mrg"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
