"""Tests of the blocks of text that preparation works on."""

import sys
from functools import partial

import numpy as np
import pytest

from t2t_keras.data import text_blocks
from t2t_keras.data.text_blocks import write_blocks

PAIRS = [(f"{i} \r\u2028\x85{'' if i % 3 else ' '}", f"{i}\x00") for i in range(23)]


def block_path(directory, number, side):
    return directory / f"{number}.{side}"


def pairs(block, keep=None):
    chunks = block.read_chunks(keep)
    return [pair for sides in chunks for pair in zip(*sides, strict=True)]


def chunks(sizes):
    start = 0
    for size in sizes:
        sides = zip(*PAIRS[start : start + size], strict=True)
        yield tuple(map(list, sides))
        start += size


@pytest.mark.parametrize("sizes", [[23], [1] * 23, [5, 5, 10, 3], [10, 13]])
@pytest.mark.parametrize("size", [1, 5, 10, 23, 100])
def test_blocks_contain_the_text_in_order(tmp_path, monkeypatch, sizes, size):
    monkeypatch.setattr(text_blocks, "CHUNK_LINES", 4)
    path = partial(block_path, tmp_path)
    blocks = [*write_blocks(chunks(sizes), path, size)]
    assert [block.pairs for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    assert [pair for block in blocks for pair in pairs(block)] == PAIRS
    keep = np.arange(23) % 3 == 1
    first, kept = 0, []
    for block in blocks:
        kept += pairs(block, keep[first : first + block.pairs])
        first += block.pairs
    assert kept == PAIRS[1::3]


def test_no_text_is_one_block_without_pairs(tmp_path):
    (block,) = write_blocks(iter([]), partial(block_path, tmp_path), 5)
    assert block.pairs == 0
    assert list(block.read_chunks()) == []


def test_line_feeds_inside_sentences_do_not_end_them(tmp_path):
    text = [(["a\nb", "c"], ["d", "e\n\nf"])]
    (block,) = write_blocks(text, partial(block_path, tmp_path))
    assert list(block.read_chunks()) == [(["a b", "c"], ["d", "e  f"])]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
