"""Options of beam search and sampling."""

import dataclasses

from t2t_keras.config.config_base import Config, option
from t2t_keras.errors import UserError

_OWN = "A model with a value of its own, from its preset or imported, uses that."


@dataclasses.dataclass(frozen=True)
class SearchOptions(Config):
    """Options of beam search and sampling.

    All fields are flags of the stages that decode, with the same names.

    Raises:
        UserError: If a value has the wrong type, is out of range, or contradicts
            another.
    """

    beam_size: int = option(
        4, f"Number of beams; 1 is greedy search. {_OWN}", minimum=1, maximum=10_000
    )
    length_penalty: float = option(
        0.6,
        "Exponent of the length penalty: 0 prefers short outputs, larger values prefer "
        f"longer ones. {_OWN}",
        minimum=0,
    )
    length_penalty_beta: float = option(
        5.0,
        "Constant b of the length penalty ((b + length) / (b + 1))^length_penalty: 5 "
        "as in Wu et al. (2016), or 0 as in Marian, Hugging Face and CTranslate2. "
        f"{_OWN}",
        minimum=0,
    )
    max_length_factor: float = option(
        1.0,
        "Maximum length of an output: this factor times the number of tokens of the "
        f"input, plus --max_extra_length. {_OWN}",
        minimum=0,
    )
    max_extra_length: int = option(
        50,
        "Maximum number of tokens by which an output may be longer than its input "
        "(times --max_length_factor), unless --min_length or a forced prefix asks for "
        f"more. {_OWN}",
        minimum=1,
    )
    max_output_tokens: int = option(
        0,
        "Maximum number of tokens in the output, end token included (0 = no limit).",
        minimum=0,
    )
    n_best: int = option(
        1, "Number of hypotheses per sentence, at most --beam_size.", minimum=1
    )
    min_length: int = option(
        0, "Minimum number of tokens in the output, end token excluded.", minimum=0
    )
    no_repeat_ngram: int = option(
        0, "Block repeated n-grams of this size (0 = off).", minimum=0
    )
    early_stopping: str = option(
        "never",
        "When to end beam search before the maximum length. never: if no unfinished "
        "hypothesis can become one of the --n_best, which is exact. heuristic: if the "
        "best unfinished one scores lower at its current length than --beam_size "
        "finished ones, the default of Hugging Face. first: if --beam_size hypotheses "
        f"are finished. {_OWN}",
        choices=("never", "heuristic", "first"),
    )
    force_end: bool = option(
        False,
        "End all hypotheses at the maximum length as if the end token had probability "
        "1, so that they compete with finished ones. By default they are cut, and used "
        f"only if none is finished. {_OWN}",
    )
    disable_unk: bool = option(False, f"Never produce the unknown token. {_OWN}")
    sample: bool = option(
        False,
        "Sample --beam_size translations from the model's distribution instead of "
        "searching for the most probable ones.",
    )
    temperature: float = option(
        1.0, "Temperature for --sample: logits are divided by it."
    )
    top_k: int = option(
        0,
        "Number of most probable tokens that --sample draws from (0 = all).",
        minimum=0,
    )
    top_p: float = option(
        1.0,
        "Probability mass of the most probable tokens that --sample draws from (nucleus"
        " sampling; 1 = all tokens).",
    )
    sample_seed: int = option(0, "Random seed for --sample.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_best > self.beam_size:
            raise UserError(
                "n_best must be at most beam_size. Received: "
                f"n_best={self.n_best}, beam_size={self.beam_size}"
            )
        if 0 < self.max_output_tokens < self.min_length:
            raise UserError(
                "min_length must be at most max_output_tokens. Received: "
                f"min_length={self.min_length}, "
                f"max_output_tokens={self.max_output_tokens}"
            )
        if self.no_repeat_ngram == 1:
            raise UserError("no_repeat_ngram must be 0 or at least 2. Received: 1")
        if self.temperature <= 0:
            raise UserError(
                f"temperature must be positive. Received: {self.temperature}"
            )
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be in (0, 1]. Received: {self.top_p}")

    def max_length(self, source_tokens: int) -> int:
        """Returns the maximum length of an output, apart from its other limits.

        Args:
            source_tokens: Number of source tokens, end token included.

        Returns:
            Number of tokens of the output, end token included.
        """
        return int(source_tokens * self.max_length_factor) + self.max_extra_length
