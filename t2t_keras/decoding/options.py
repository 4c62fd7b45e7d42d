"""How to search, apart from what to search with."""

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
        max_output_tokens: The most tokens of an output, its end counted, however long
            its source; 0 for no such limit. Default 0.
        n_best: How many hypotheses must be the best that there are. Default 1.
        min_length: Fewest tokens of an output, its end not counted. Default 0.
        no_repeat_ngram: No sequence of so many tokens comes twice in an output; 0 for
            no such rule. Default 0.
        sample: Draw `beam_size` outputs at random, each on its own, rather than look
            for the likeliest. Default False.
        temperature: Of the distribution drawn from: the logits are divided by it.
            Default 1.
        top_k: Draw from so many likeliest tokens only; 0 for all. Default 0.
        top_p: Draw from the likeliest tokens that together have this probability.
            Default 1.
        sample_seed: Of what is drawn, together with the sentence's number. Default 0.

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
