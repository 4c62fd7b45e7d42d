"""Tests of batch plans: token budget, reproducible order and number of shapes."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from t2t_keras.data import batching
from t2t_keras.data.batching import Batching, bucket_boundaries
from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.tokenizer_pair import TokenizerPair

MULTI30K = Path(__file__).parents[3] / "shared" / "data" / "multi30k"

# Source and target tokens; the longer sides are 3, 4, 6, 2, 4, 3.
SIX = np.array([[3, 2], [3, 4], [6, 1], [2, 2], [4, 4], [3, 3]])


def random_lengths(number=2_000, longest=60, seed=0):
    rng = np.random.default_rng(seed)
    source = rng.integers(1, longest + 1, number)
    target = np.clip(source + rng.integers(-8, 9, number), 1, longest)
    return np.stack([source, target], axis=1)


def plan(lengths, epoch=0, shuffle=True, **arguments):
    batches = Batching(**arguments).global_batches(lengths, epoch, shuffle)
    return [batch.tolist() for batch in batches]


def shapes(parts):
    return [
        (p.indices.tolist(), p.rows, p.source_length, p.target_length) for p in parts
    ]


def test_bucket_boundaries_are_four_per_doubling():
    # fmt: off
    expected = [4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128,
                160, 192, 224, 256]
    # fmt: on
    assert bucket_boundaries(256).tolist() == expected
    assert bucket_boundaries(225).tolist() == expected
    assert bucket_boundaries(257).tolist() == [*expected, 320]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # Widths 2, 3, 3 | 4, 4 | 6: 3 * 3 = 9 positions, 2 * 4 = 8, and 6.
        ({"batch_tokens": 9}, [[3, 0, 5], [1, 4], [2]]),
        # The longest pair counts: 4 * 4 = 16 and 3 * 6 = 18 positions.
        ({"batch_tokens": 15}, [[3, 0, 5], [1, 4], [2]]),
        ({"batch_tokens": 18}, [[3, 0, 5, 1], [4, 2]]),
        ({"batch_tokens": 36}, [[3, 0, 5, 1, 4, 2]]),
        # A pair longer than the budget is a batch of its own.
        ({"batch_tokens": 3}, [[3], [0], [5], [1], [4], [2]]),
        ({"batch_tokens": 36, "batch_sentences": 4}, [[3, 0, 5, 1], [4, 2]]),
        ({"batch_tokens": 9, "batch_sentences": 2}, [[3, 0], [5, 1], [4], [2]]),
        # Padded widths 4, 4, 4, 4, 4 and 8.
        (
            {"batch_tokens": 16, "pad_to_boundary": True},
            [[3, 0, 5, 1], [4, 2]],
        ),
        (
            {"batch_tokens": 15, "pad_to_boundary": True},
            [[3, 0, 5], [1, 4], [2]],
        ),
    ],
)
def test_plan_equals_hand_computed_batches(arguments, expected):
    assert plan(SIX, shuffle=False, **arguments) == expected


def test_parts_equal_hand_computed_shapes():
    batch = np.array([3, 0, 5, 1, 4])
    free = Batching(batch_tokens=20)
    assert shapes(free.parts(batch, SIX, 1)) == [([3, 0, 5, 1, 4], 5, 4, 4)]
    assert shapes(free.parts(batch, SIX, 2)) == [
        ([3, 0, 5], 3, 3, 3),
        ([1, 4], 2, 4, 4),
    ]
    assert shapes(free.parts(np.array([0, 2]), SIX, 2)) == [
        ([0], 1, 3, 2),
        ([2], 1, 6, 1),
    ]
    # 20 positions hold 5 rows of width 4 or 2 rows of width 8.
    fixed = Batching(batch_tokens=20, pad_to_boundary=True)
    assert shapes(fixed.parts(batch[:2], SIX, 1)) == [([3, 0], 5, 4, 4)]
    assert shapes(fixed.parts(batch, SIX, 2)) == [
        ([3, 0, 5], 3, 4, 4),
        ([1, 4], 3, 4, 4),
    ]
    assert shapes(fixed.parts(np.array([0, 2]), SIX, 1)) == [([0, 2], 2, 8, 8)]
    # Each part is as wide as its own pairs require.
    assert shapes(fixed.parts(np.array([0, 2]), SIX, 2)) == [
        ([0], 3, 4, 4),
        ([2], 1, 8, 8),
    ]


def test_empty_parts_have_one_padded_row():
    parts = Batching(batch_tokens=20).parts(np.array([1, 4]), SIX, 4)
    assert shapes(parts) == [
        ([1], 1, 3, 4),
        ([4], 1, 4, 4),
        ([], 1, 1, 1),
        ([], 1, 1, 1),
    ]
    fixed = Batching(batch_tokens=8, pad_to_boundary=True)
    parts = fixed.parts(np.array([1, 4]), SIX, 4)
    assert shapes(parts) == [
        ([1], 1, 4, 4),
        ([4], 1, 4, 4),
        ([], 1, 4, 4),
        ([], 1, 4, 4),
    ]


def test_statistics_equal_hand_computed_values():
    # 2 rows of 4 + 4, 1 row of 6 + 1, and 3 rows of 3 + 3, with 37 tokens in total.
    statistics = Batching(batch_tokens=9).statistics(SIX, 1)
    assert (statistics.batches, statistics.shapes) == (3, 3)
    assert statistics.non_padding == pytest.approx(37 / (16 + 7 + 18))


@pytest.mark.parametrize("pad_to_boundary", [False, True])
@pytest.mark.parametrize("batch_sentences", [None, 10])
@pytest.mark.parametrize("batch_tokens", [50, 400, 4096])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_pair_is_in_one_batch_within_the_token_budget(
    pad_to_boundary, batch_sentences, batch_tokens, shuffle
):
    lengths = random_lengths()
    plans = Batching(batch_tokens, batch_sentences, pad_to_boundary, seed=3)
    batches = plans.global_batches(lengths, 1, shuffle)
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(len(lengths)))
    for batch in batches:
        assert len(batch) <= (batch_sentences or len(lengths))
        (part,) = plans.parts(batch, lengths, 1)
        assert part.rows >= len(batch)
        assert part.source_length >= lengths[batch, 0].max()
        assert part.target_length >= lengths[batch, 1].max()
        if len(batch) > 1:
            assert part.rows * part.source_length <= batch_tokens
            assert part.rows * part.target_length <= batch_tokens


@pytest.mark.parametrize("number", [1, 2, 7])
def test_parts_divide_a_batch_and_its_token_budget(number):
    lengths = random_lengths()
    plans = Batching(batch_tokens=400)
    for batch in plans.global_batches(lengths, 0):
        parts = list(plans.parts(batch, lengths, number))
        assert (
            np.concatenate([part.indices for part in parts]).tolist() == batch.tolist()
        )
        sizes = [len(part.indices) for part in parts]
        assert len(sizes) == number
        assert max(sizes) - min(sizes) <= 1
        for side in (0, 1):
            # An empty part has one row with one position.
            widths = [(p.source_length, p.target_length)[side] for p in parts]
            positions = sum(p.rows * w for p, w in zip(parts, widths, strict=True))
            assert len(batch) == 1 or positions <= 400 + sizes.count(0)


@pytest.mark.parametrize("number", [1, 2, 7])
def test_pad_to_boundary_gives_few_shapes(number):
    lengths = random_lengths()
    plans = Batching(batch_tokens=4096, pad_to_boundary=True)
    rows_of_width = {}
    for batch in plans.global_batches(lengths, 0):
        for part in plans.parts(batch, lengths, number):
            assert part.source_length == part.target_length
            assert part.rows >= len(part.indices)
            rows_of_width.setdefault(part.source_length, set()).add(part.rows)
            # A replica gets its share of the budget, rounded up to whole rows.
            width = part.source_length
            assert part.rows * width < 4096 / number + width
    # Each width has one number of rows. The longest pair has 60 tokens.
    assert all(len(rows) == 1 for rows in rows_of_width.values())
    assert set(rows_of_width) <= set(bucket_boundaries(60).tolist())
    assert plans.statistics(lengths, number).shapes == len(rows_of_width) <= 12
    free = Batching(batch_tokens=4096).statistics(lengths, number)
    assert free.shapes > len(rows_of_width)


def test_plan_depends_only_on_seed_and_epoch():
    lengths = random_lengths()
    here = plan(lengths, 1, batch_tokens=400, seed=5)
    assert plan(lengths, 1, batch_tokens=400, seed=5) == here
    for epoch, seed in ((0, 5), (2, 5), (1, 6), (5, 1)):
        other = plan(lengths, epoch, batch_tokens=400, seed=seed)
        assert other != here
        # Not only the order of the batches differs, but also their composition.
        assert (
            len(set(map(frozenset, other)) & set(map(frozenset, here))) < len(here) / 2
        )


def test_batches_are_shuffled():
    lengths = random_lengths()
    widths = [lengths[b].max() for b in plan(lengths, batch_tokens=400)]
    ascending = sum(a <= b for a, b in itertools.pairwise(widths))
    assert 0.3 < ascending / len(widths) < 0.7
    in_order = plan(lengths, shuffle=False, batch_tokens=400)
    assert [lengths[b].max() for b in in_order] == sorted(widths)


def test_corpus_larger_than_sorting_window_is_fully_batched(monkeypatch):
    monkeypatch.setattr(batching, "_WINDOW_PAIRS", 300)
    lengths = random_lengths(1_000)
    batches = plan(lengths, batch_tokens=400)
    assert sorted(itertools.chain(*batches)) == list(range(1_000))
    assert all(lengths[b].max() * len(b) <= 400 for b in batches)


def test_no_pairs_give_no_batches():
    empty = np.zeros([0, 2], int)
    for pad in (False, True):
        assert plan(empty, pad_to_boundary=pad) == []


@pytest.mark.parametrize("name", ["batch_tokens", "batch_sentences"])
def test_limits_below_one_are_rejected(name):
    with pytest.raises(ValueError, match=rf"{name} must be at least 1\. Received: 0"):
        Batching(**{name: 0})


@pytest.fixture(scope="module")
def multi30k_lengths():
    files = [MULTI30K / f"train.{lang}.gz" for lang in ("en", "de")]
    if not all(path.is_file() for path in files):
        pytest.skip(f"{MULTI30K} is absent")
    corpus = TextCorpus(
        "en", "de", {"train": [str(files[0])]}, {"train": [str(files[1])]}
    )
    pair = TokenizerPair.train(corpus.read("train"), "bpe", 8_000, True)
    model = sentencepiece.SentencePieceProcessor(model_proto=pair.source.model)
    source, target = (
        np.array([len(row) for row in model.encode(list(texts))])
        for texts in zip(*corpus.read("train"), strict=True)
    )
    keep = LengthFilter().keep(source, target)
    return np.stack([source, target], 1)[keep] + 1


@pytest.mark.parametrize(
    ("batch_tokens", "parts", "minimum"), [(4_096, 1, 0.90), (25_000, 7, 0.95)]
)
def test_real_text_needs_little_padding(multi30k_lengths, batch_tokens, parts, minimum):
    plans = Batching(batch_tokens)
    for epoch in (0, 1):
        assert plans.statistics(multi30k_lengths, parts, epoch).non_padding >= minimum


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
