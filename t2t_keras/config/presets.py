"""Presets: named configurations, including those of the paper."""

import dataclasses
from dataclasses import field
from typing import Any, Self

from t2t_keras.config.paper_variations import VARIATIONS, Variation
from t2t_keras.config.training_config import TrainingConfig
from t2t_keras.config.transformer_config import TransformerConfig
from t2t_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class Preset:
    """Configuration of vocabulary, model and training.

    Attributes:
        subword: Kind of the subword vocabulary: bpe, unigram or wordpiece.
        vocab_size: Number of tokens of each vocabulary.
        transformer: The model.
        training: The training.
    """

    subword: str = "bpe"
    vocab_size: int = 37_000
    transformer: TransformerConfig = field(default_factory=TransformerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def values(self) -> dict[str, Any]:
        """Returns all values by name. Names are unique across the configurations."""
        return {
            "subword": self.subword,
            "vocab_size": self.vocab_size,
            **self.transformer.to_dict(),
            **self.training.to_dict(),
        }

    def replace(self, **values: Any) -> Self:
        """Returns a copy with other values in any of the configurations.

        Args:
            **values: Names as in `values`.

        Raises:
            UserError: If a name is unknown, or a value is not allowed.
        """
        parts: dict[str, dict[str, Any]] = {"transformer": {}, "training": {}, "": {}}
        for name, value in values.items():
            if name in TransformerConfig.field_names():
                parts["transformer"][name] = value
            elif name in TrainingConfig.field_names():
                parts["training"][name] = value
            elif name in ("subword", "vocab_size"):
                parts[""][name] = value
            else:
                raise UserError(
                    "A hyper-parameter must be one of "
                    f"{', '.join(self.values())}. Received: {name!r}"
                )
        return dataclasses.replace(
            self,
            transformer=self.transformer.replace(**parts["transformer"]),
            training=self.training.replace(**parts["training"]),
            **parts[""],
        )


BASE = Preset()
"""The paper's base model (Table 3, first row), its English-German data and training
(section 5)."""

BIG = BASE.replace(
    d_model=1024,
    d_ff=4096,
    num_heads=16,
    dropout=0.3,
    train_steps=300_000,
    average_last=20,
)
"""The paper's big model, for English-German."""

TINY = BASE.replace(
    vocab_size=8000,
    num_layers=4,
    d_model=128,
    d_ff=256,
    num_heads=4,
    pre_norm=True,
    learning_rate=1.2,
    warmup_steps=500,
    batch_tokens=2048,
    train_steps=10_000,
    checkpoint_minutes=0.5,
    average_last=3,
    cooldown=0.2,
    search={"length_penalty": 1.4},
)
"""Trains on a small corpus within minutes on a laptop's CPU.

Pre-norm, since the decoder of a post-norm model often does not attend to the source
yet after a few hundred steps.

The paper's length penalty of 0.6 was chosen for newspaper text. The sentences of small
corpora are shorter, and beam search with it returns translations of them that are 3 to
13% too short (docs/results.md has the measurements).
"""

MULTI30K = BASE.replace(
    vocab_size=10_000,
    num_layers=4,
    d_model=128,
    d_ff=256,
    num_heads=4,
    dropout=0.3,
    # The peak is 0.005, which is this factor / sqrt(d_model * warmup_steps).
    learning_rate=2.53,
    warmup_steps=2000,
    batch_tokens=8192,
    train_steps=8000,
    average_last=10,
    search={"length_penalty": 1.4},
)
"""`transformer_tiny` as Wu et al. (2021, arXiv 2105.14462) train it on Multi30k."""

PARSING = BASE.replace(
    subword="wordpiece",
    vocab_size=16_000,
    num_layers=4,
    d_model=1024,
    dropout=0.2,
    attention_dropout=0.2,
    warmup_steps=16_000,
)
"""The paper's parser for WSJ alone (section 6.3).

The paper names dropout, learning rate and beam as its only differences from base,
without values for the first two. The values here are those of its authors'
`transformer_parsing_base` in Tensor2Tensor.
"""


def vary(base: Preset, row: str) -> Preset:
    """Returns the preset of a row of Table 3.

    Args:
        base: The preset that the row changes.
        row: A key of `VARIATIONS`.

    Raises:
        UserError: If the changes do not give a valid model for this base.
    """
    return base.replace(**_changes(base.values(), VARIATIONS[row]))


def _changes(base: dict[str, Any], variation: Variation) -> dict[str, Any]:
    values = dict(variation.values)
    if "d_k" in variation.factors:
        values["d_k"] = base["d_k"] or base["d_model"] // base["num_heads"]
        values["d_v"] = base["d_v"] or values["d_k"]
    for name, factor in variation.factors.items():
        if (value := values.get(name, base[name])) is not None:
            values[name] = max(1, round(value * factor))
    if variation.group == "A" and (base["d_k"] or base["d_v"]):
        # In row A, d_k = d_v = d_model / h, whatever the base has.
        values["d_k"] = values["d_v"] = base["d_model"] // values["num_heads"]
    return values


_ENGLISH_FRENCH = {"subword": "wordpiece", "vocab_size": 32_000}
"""Changes for English-French (section 5.1)."""

PRESETS: dict[str, Preset] = {
    "tiny": TINY,
    "multi30k": MULTI30K,
    "base": BASE,
    "big": BIG,
    "base_en_fr": BASE.replace(**_ENGLISH_FRENCH),
    # Section 6.1.
    "big_en_fr": BIG.replace(**_ENGLISH_FRENCH, dropout=0.1),
    "parsing": PARSING,
    **{
        f"base_{row}": vary(BASE, row)
        for row in VARIATIONS
        if row not in ("base", "big")
    },
}
"""All presets by name."""
