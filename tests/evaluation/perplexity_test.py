"""Tests of perplexity per token and per word."""

import math
import sys

import pytest

from t2t_keras.evaluation.perplexity import Perplexity


def test_perplexity_counts_eos_and_skips_unscored_translations():
    half, quarter = math.log(0.5), math.log(0.25)
    found = Perplexity.from_token_scores(
        ["a bc", "", "d"], [[half, quarter, quarter, half], [], [half, half]]
    )
    assert (found.tokens, found.words) == (6, 5)
    assert found.nll == pytest.approx(8 * math.log(2))
    assert found.per_token == pytest.approx(2 ** (8 / 6))
    assert found.per_word == pytest.approx(2 ** (8 / 5))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
