"""Options of the search."""

import dataclasses

from t2t_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Arguments of `search`.

    Args:
        beam_size: Number of beams; 1 is greedy search. Default 4.
        length_penalty: Exponent of the length penalty. Default 0.6.
        max_extra_length: How many tokens longer than its source an output may be,
            unless `min_length` or a prefix asks for more. Default 50.
        max_output_tokens: Maximum number of tokens of an output with its end
            token, for any source length; 0 for no limit. Default 0.
        n_best: Number of best hypotheses to find. Default 1.
        min_length: Minimum number of tokens of an output, without the end token.
            Default 0.
        no_repeat_ngram: Block repeated n-grams of this size; 0 to allow them.
            Default 0.
        sample: Draw `beam_size` independent random outputs instead of searching for
            the most probable ones. Default False.
        temperature: Sampling temperature, by which the logits are divided.
            Default 1.
        top_k: Sample from this many most probable tokens only; 0 for all. Default 0.
        top_p: Sample from the most probable tokens with this total probability.
            Default 1.
        sample_seed: Random seed, combined with the sentence's index. Default 0.

    Raises:
        UserError: If an argument is out of its range.
    """

    beam_size: int = 4
    length_penalty: float = 0.6
    max_extra_length: int = 50
    max_output_tokens: int = 0
    n_best: int = 1
    min_length: int = 0
    no_repeat_ngram: int = 0
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    sample_seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("beam_size", 1),
            ("n_best", 1),
            ("length_penalty", 0),
            ("max_extra_length", 1),
            ("max_output_tokens", 0),
            ("min_length", 0),
            ("no_repeat_ngram", 0),
            ("top_k", 0),
        ):
            value = getattr(self, name)
            if value < least:
                raise UserError(f"{name} is at least {least}. Received: {value}")
        if self.n_best > self.beam_size:
            raise UserError(
                "There are no more hypotheses than beams. Received: "
                f"n_best={self.n_best}, beam_size={self.beam_size}"
            )
        if 0 < self.max_output_tokens < self.min_length:
            raise UserError(
                "An output cannot be as long as min_length asks. Received: "
                f"min_length={self.min_length}, "
                f"max_output_tokens={self.max_output_tokens}"
            )
        if self.no_repeat_ngram == 1:
            raise UserError("no_repeat_ngram is 0, or at least 2. Received: 1")
        if self.temperature <= 0:
            raise UserError(f"temperature is positive. Received: {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p lies in (0, 1]. Received: {self.top_p}")
