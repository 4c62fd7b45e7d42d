"""Named hyper-parameters: plain dictionaries over one constructor.

Every key is a flag of the same name. Those of `DATA` are arguments of `prepare`, those
of `MODEL` of `Transformer`; those of `RUN` say how training ends and what is kept of
it; all others say how to train.
"""

from typing import Any

from t2t_keras.flags.variations import VARIATIONS, vary

BASE: dict[str, Any] = {
    "subword": "bpe",
    "vocab_size": 37_000,
    "num_layers": 6,
    "num_decoder_layers": None,
    "d_model": 512,
    "d_ff": 2048,
    "num_heads": 8,
    "d_k": None,
    "d_v": None,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "attention_bias": False,
    "position": "sinusoidal",
    "max_length": 1024,
    "pre_norm": False,
    "norm_epsilon": 1e-6,
    "share_embeddings": True,
    "label_smoothing": 0.1,
    "learning_rate": 1.0,
    "warmup_steps": 4000,
    "clip_norm": None,
    "r_drop": None,
    "batch_tokens": 25_000,
    "train_steps": 100_000,
    "checkpoint_minutes": 10.0,
    "average_last": 5,
    "cooldown": 0.0,
}
"""The paper's base model (Table 3, first row), its English-German data and training
(section 5)."""

BIG = {
    **BASE,
    "d_model": 1024,
    "d_ff": 4096,
    "num_heads": 16,
    "dropout": 0.3,
    "train_steps": 300_000,
    "average_last": 20,
}
"""The paper's big model, for English-German."""

ENGLISH_FRENCH = {"subword": "wordpiece", "vocab_size": 32_000}
"""What English-French changes (section 5.1)."""

TINY = {
    **BASE,
    "vocab_size": 8000,
    "num_layers": 4,
    "d_model": 128,
    "d_ff": 256,
    "num_heads": 4,
    "pre_norm": True,
    "learning_rate": 1.2,
    "warmup_steps": 500,
    "batch_tokens": 2048,
    "train_steps": 10_000,
    "checkpoint_minutes": 0.5,
    "average_last": 3,
    "cooldown": 0.2,
}
"""Learns a small corpus on a laptop's processor within minutes.

Pre-norm, since at a few hundred steps the decoder of a post-norm model has often not
begun to look at the source.
"""

MULTI30K = {
    **BASE,
    "vocab_size": 10_000,
    "num_layers": 4,
    "d_model": 128,
    "d_ff": 256,
    "num_heads": 4,
    "dropout": 0.3,
    # Its peak is 0.005: that is the scale over the root of d_model * warmup_steps.
    "learning_rate": 2.53,
    "warmup_steps": 2000,
    "batch_tokens": 8192,
    "train_steps": 8000,
    "average_last": 10,
}
"""`transformer_tiny` as Wu et al. (2021, arXiv 2105.14462) train it on Multi30k."""

PARSING = {
    **BASE,
    "subword": "wordpiece",
    "vocab_size": 16_000,
    "num_layers": 4,
    "d_model": 1024,
    "dropout": 0.2,
    "attention_dropout": 0.2,
    "warmup_steps": 16_000,
}
"""The paper's parser for WSJ alone (section 6.3), which has base's other parameters but
for dropout, learning rate and beam. It names no values of the first two: they are those
of its authors' `transformer_parsing_base` in Tensor2Tensor."""

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": TINY,
    "multi30k": MULTI30K,
    "base": BASE,
    "big": BIG,
    "base_en_fr": {**BASE, **ENGLISH_FRENCH},
    # Section 6.1.
    "big_en_fr": {**BIG, **ENGLISH_FRENCH, "dropout": 0.1},
    "parsing": PARSING,
    **{
        f"base_{row}": vary(BASE, row)
        for row in VARIATIONS
        if row not in ("base", "big")
    },
}

SEARCH: dict[str, dict[str, float]] = {
    name: {"length_penalty": 1.4} for name in ("tiny", "multi30k")
}
"""Search options that the later stages use by default for a model of a preset, where
they differ from the paper's (section 6.1).

The length penalty of 0.6 was chosen for newspaper text. The sentences of small corpora
are shorter, and beam search returns translations of them that are 3 to 13% too short;
docs/results.md has the measurements.
"""

DATA = ("subword", "vocab_size")
RUN = (
    "train_steps",
    "checkpoint_minutes",
    "average_last",
    "cooldown",
)
MODEL = (
    "num_layers",
    "num_decoder_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "dropout",
    "attention_dropout",
    "relu_dropout",
    "attention_bias",
    "position",
    "max_length",
    "pre_norm",
    "norm_epsilon",
    "share_embeddings",
)
