"""Tests of the keys that find duplicates and leaks."""

# ruff: noqa: RUF001 (full-width letters)

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from t2t_keras.data.filters import HeldOutKeys, keys


def key(text, normalized):
    (found,) = keys("source", normalized, [text], [""])
    return found


def test_keys_are_blake2b_of_the_text():
    digest = hashlib.blake2b(b"A house.", digest_size=8).digest()
    found = keys("source", False, ["A house."], ["Ein Haus."])
    assert found.dtype == np.uint64
    assert found.tolist() == [int.from_bytes(digest, "little")]


@pytest.mark.parametrize(
    ("left", "right", "exact", "normalized"),
    [
        ("A house.", "A house.", True, True),
        (" A  house.\t", "A house.", True, True),
        ("A house.", "a HOUSE", False, True),
        ("A house", "Ahouse!", False, True),
        ("STRASSE", "Straße", False, True),
        ("ｈｏｕｓｅ２", "house2", False, True),
        ("e\u0301", "é", False, True),
        ("house 1", "house 2", False, False),
        ("की", "का", False, False),  # They differ in a vowel sign.
        ("!", "?", False, False),  # No letters: compared as they are.
        ("! ", "!", True, True),
        ("", "!", False, False),
        ("a\nb", "a b", True, True),
    ],
)
def test_equal_keys_for_equal_text(left, right, exact, normalized):
    assert (key(left, False) == key(right, False)) == exact
    assert (key(left, True) == key(right, True)) == normalized


def test_kinds_compare_source_target_or_both():
    sources, targets = ["a", "a", "b", "ab", "a"], ["x", "y", "x", "", "x"]
    for normalized in (False, True):
        for kind, expected in (
            ("source", sources),
            ("target", targets),
            ("pair", list(zip(sources, targets, strict=True))),
        ):
            found = keys(kind, normalized, sources, targets).tolist()
            for i in range(5):
                for j in range(5):
                    assert (found[i] == found[j]) == (expected[i] == expected[j])


@pytest.mark.parametrize("normalized", [False, True])
def test_keys_do_not_depend_on_the_chunk(normalized):
    texts = ["A house.", "", "a\nb\n", "\n", "😀", "ﬁne \u2028 İ", "x" * 1000]
    together = keys("pair", normalized, texts, texts[::-1]).tolist()
    alone = [
        keys("pair", normalized, [text], [other]).tolist()
        for text, other in zip(texts, texts[::-1], strict=True)
    ]
    assert [[found] for found in together] == alone
    assert keys("pair", normalized, [], []).shape == (0,)


def test_keys_are_equal_in_other_processes():
    program = (
        "from t2t_keras.data.filters import keys\n"
        "print(keys('pair', True, ['A house.'], ['Ein Haus.'])[0])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {f"{keys('pair', True, ['A house.'], ['Ein Haus.'])[0]}\n"}


def test_leaks_are_pairs_with_a_held_out_source_or_target():
    held_out = HeldOutKeys(
        True, [("A house.", "Ein Haus."), ("A tree.", ""), ("", "Ein Baum.")]
    )
    pairs = [
        ("a house", "Etwas", True),
        ("Something", "EIN HAUS!", True),
        ("Something", "Etwas", False),
        ("Ein Haus.", "A house.", False),  # On the other side.
        ("", "", False),
        ("A tree.", "", True),
        ("Something", "Ein Baum", True),
    ]
    sources, targets, expected = zip(*pairs, strict=True)
    assert held_out.leaks(sources, targets).tolist() == list(expected)
    exact = HeldOutKeys(False, [("A house.", "Ein Haus.")])
    assert exact.leaks(["a house", "A  house."], ["", ""]).tolist() == [False, True]
    assert HeldOutKeys(True, []).leaks(["a"], ["b"]).tolist() == [False]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
