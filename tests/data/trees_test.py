"""Tests of reading and simplifying bracketed trees."""

import gzip
import re
import sys

import pytest

from t2t_keras.data.trees import (
    MAX_DEPTH,
    Tree,
    brackets,
    read_trees,
    retag,
    simplify,
    tree_files,
)

RUNS = Tree(
    "S",
    (
        Tree("NP", (Tree("NNP", (), "John"),)),
        Tree("VP", (Tree("VBZ", (), "runs"),)),
        Tree(".", (), "."),
    ),
)


def write(path, text):
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def read(tmp_path, text):
    return list(read_trees(write(tmp_path / "x.mrg", text)))


def simplified(tmp_path, text):
    """Returns the only tree of a text, simplified, as text."""
    [tree] = read(tmp_path, text)
    return str(simplify(tree))


def test_read_trees_parses_labels_words_and_children(tmp_path):
    [tree] = read(tmp_path, "(S (NP (NNP John)) (VP (VBZ runs)) (. .))")
    assert tree == RUNS
    assert tree.words() == ["John", "runs", "."]
    assert [leaf.label for leaf in tree.leaves()] == ["NNP", "VBZ", "."]
    assert str(tree) == "(S (NP (NNP John)) (VP (VBZ runs)) (. .))"


@pytest.mark.parametrize("name", ["x.mrg", "x.mrg.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_trees_may_span_or_share_lines(tmp_path, name, end):
    lines = ["", "( (S", "    (NP (NNP John) )", "  (VP (VBZ runs)) (. .) ))", ""]
    path = write(tmp_path / name, end.join([*lines, "(S (X a))(S (X b))(S", "(X c))"]))
    trees = list(read_trees(path))
    assert trees[0] == Tree("", (RUNS,))
    assert [tree.words() for tree in trees[1:]] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("text", ["", "\n\n", " \r\n"])
def test_empty_file_has_no_trees(tmp_path, text):
    assert read(tmp_path, text) == []


def test_words_may_contain_anything_but_brackets_and_spaces(tmp_path):
    words = ["-LRB-", "1\\/2", "$", "``", "*", "über", "日本", "a=b", "XX", "\ufeff"]
    text = " ".join(f"(NN {word})" for word in words)
    [tree] = read(tmp_path, f"(NP {text})")
    assert tree.words() == words
    assert str(tree) == f"(NP {text})"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("( (S (X a)))", "(S (X a))"),
        ("(TOP (S (X a)))", "(S (X a))"),
        ("(ROOT (S (X a)))", "(S (X a))"),
        ("(S1 (S (X a)))", "(S (X a))"),
        ("(TOP (S (X a)) (NP (X b)))", "(TOP (S (X a)) (NP (X b)))"),
        # A word without a constituent needs brackets of its own in a file.
        ("( (NN a))", "(TOP (NN a))"),
        ("(S (NP-SBJ (X a)))", "(S (NP (X a)))"),
        ("(S (NP-SBJ-1 (X a)))", "(S (NP (X a)))"),
        ("(S-TPC-2=3 (NP=2 (X a)))", "(S (NP (X a)))"),
        ("(S (ADVP|PRT (X a)))", "(S (ADVP (X a)))"),
        ("(S (-X- (X a)))", "(S (-X (X a)))"),
        # Parts of speech stay unchanged, because evaluation uses them.
        ("(S (-LRB- -LRB-) (PRP$ his) (: --))", "(S (-LRB- -LRB-) (PRP$ his) (: --))"),
        ("(S (NP (-NONE- *T*-1)) (VP (X a)))", "(S (VP (X a)))"),
        ("(S (SBAR (-NONE- 0) (S (NP (-NONE- *)))) (X a))", "(S (X a))"),
        ("(S (NP (-NONE- *)) (NP (NP (X a)) (PP (-NONE- *))))", "(S (NP (NP (X a))))"),
        ("(NP-A (NP-B (NP-C (X a))))", "(NP (NP (NP (X a))))"),
    ],
)
def test_simplify_removes_what_parsers_do_not_predict(tmp_path, given, expected):
    assert simplified(tmp_path, given) == expected
    assert simplified(tmp_path, expected) == expected


@pytest.mark.parametrize("given", ["( (S (NP (-NONE- *))))", "(-NONE- *)"])
def test_simplify_returns_none_for_a_tree_of_traces(tmp_path, given):
    [tree] = read(tmp_path, given)
    assert simplify(tree) is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("(S (X a))\n(S\n(X b)\n", 2, "the tree that starts here has no end"),
        ("(S (X a))\n(S (X b)))\n", 2, "')' is outside any tree"),
        ("\n*x* header\n", 2, "'*x*' is outside any tree"),
        ("(S (X a))\n()\n", 2, "a bracket must contain a label and then either"),
        ("(S (X a)\n(NP))\n", 2, "a bracket must contain a label and then either"),
        ("(S\n(X a b))\n", 2, "Received: 'X a b' and 0 brackets"),
        ("(S\nNP (X a))\n", 1, "Received: 'S NP' and 1 bracket"),
        ("(S (X a)\nword)\n", 2, "'word' follows a bracket"),
        ("((X a) S)\n", 1, "'S' follows a bracket"),
        ("((X 1 000))\n", 1, "Received: 'X 1 000'"),
    ],
)
def test_malformed_tree_raises_an_error_with_file_and_line(
    tmp_path, text, line, message
):
    position = re.escape(f"{tmp_path}/x.mrg:{line}: ")
    with pytest.raises(ValueError, match=f"{position}.*{re.escape(message)}"):
        read(tmp_path, text)


def test_trees_before_an_error_are_read(tmp_path):
    trees = read_trees(write(tmp_path / "x", "(S (X a))\n(S (X b"))
    assert next(trees).words() == ["a"]
    with pytest.raises(ValueError, match="x:2: "):
        next(trees)


def test_depth_is_limited(tmp_path):
    def nested(depth):
        return "(S " * (depth - 1) + "(X a)" + ")" * (depth - 1)

    deepest = nested(MAX_DEPTH)
    [tree] = read(tmp_path, deepest)
    assert str(simplify(tree)) == deepest
    assert len(brackets(tree)) == MAX_DEPTH - 1
    with pytest.raises(ValueError, match=r"x\.mrg:1: more than 200 open brackets"):
        read(tmp_path, nested(MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.mrg", b"(S (X a))\n(S (X \xff))\n", r"x\.mrg:2: invalid UTF-8"),
        ("x.mrg.gz", gzip.compress(b"(S (X a))" * 99)[:-9], r"x\.mrg\.gz:1: damaged"),
        ("x.mrg.gz", b"(S (X a))\n", r"x\.mrg\.gz:1: damaged gzip file"),
    ],
    ids=["not UTF-8", "cut", "not gzip"],
)
def test_unreadable_file_raises_an_error_with_its_name(
    tmp_path, name, content, message
):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_trees(tmp_path / name))


def test_folders_are_searched_recursively(tmp_path):
    names = ["00/B.MRG", "00/a.mrg.gz", "01/c.trees", "d.txt", "01/e.trees.gz"]
    for name in [*names, "00/README", "01/x.pos", "01/x.gz"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, "(S (X a))")
    (tmp_path / "02.mrg").mkdir()
    found = tree_files([tmp_path])
    assert found == sorted(tmp_path / name for name in names)
    assert [len(list(read_trees(path))) for path in found] == [1] * len(names)
    # Explicit files may have any name. The order of the paths is kept.
    given = [tmp_path / "d.txt", tmp_path / "00", str(tmp_path / "00" / "README")]
    assert [path.name for path in tree_files(given)] == [
        *("d.txt", "B.MRG", "a.mrg.gz", "README")
    ]


def test_path_without_trees_raises_an_error_with_its_name(tmp_path):
    with pytest.raises(ValueError, match=f"No such file or folder: {tmp_path}/none"):
        tree_files([tmp_path / "none"])
    with pytest.raises(ValueError, match=rf"{tmp_path} has no files of trees.*\.mrg"):
        tree_files([tmp_path])


def test_brackets_lists_constituent_spans(tmp_path):
    [tree] = read(
        tmp_path, "(TOP (S (NP (NP (X a))) (, ,) (VP (X b) (PRN (, ,) (: --)) (X c))))"
    )
    assert brackets(tree) == [
        *(("NP", 0, 1), ("NP", 0, 1)),
        *(("PRN", 3, 5), ("VP", 2, 6), ("S", 0, 6)),
    ]
    skip = [word in (",", "--") for word in tree.words()]
    assert brackets(tree, skip) == [
        *(("NP", 0, 1), ("NP", 0, 1), ("VP", 1, 3), ("S", 0, 3))
    ]


def test_retag_copies_parts_of_speech(tmp_path):
    flat, nested = read(tmp_path, "(S (X a) (X b) (X c)) (S (P a) (NP (Q b) (R c)))")
    assert str(retag(flat, nested)) == "(S (P a) (Q b) (R c))"
    assert str(retag(nested, flat)) == "(S (X a) (NP (X b) (X c)))"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
