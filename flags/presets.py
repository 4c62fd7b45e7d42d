"""Named hyper-parameters: plain dictionaries over one constructor.

Every key is a flag of the same name. Those of `DATA` are arguments of `prepare`, those
of `MODEL` of `Transformer`; those of `RUN` say when training ends and what is kept of
it; all others say how to train.
"""

from typing import Any

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
    "batch_tokens": 25_000,
    "train_steps": 100_000,
    "checkpoint_minutes": 10.0,
    "average_last": 5,
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
}
"""Learns a small corpus on a laptop's processor within minutes.

Pre-norm, since at a few hundred steps the decoder of a post-norm model has often not
begun to look at the source.
"""

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": TINY,
    "base": BASE,
    "big": BIG,
    "base_en_fr": {**BASE, **ENGLISH_FRENCH},
    # Section 6.1: less dropout, since there are eight times as many sentences.
    "big_en_fr": {**BIG, **ENGLISH_FRENCH, "dropout": 0.1},
    # Table 3: each row changes base in what its name says.
    "base_num_heads_1": {**BASE, "num_heads": 1},
    "base_num_heads_4": {**BASE, "num_heads": 4},
    "base_num_heads_16": {**BASE, "num_heads": 16},
    "base_num_heads_32": {**BASE, "num_heads": 32},
    "base_d_k_16": {**BASE, "d_k": 16, "d_v": 64},
    "base_d_k_32": {**BASE, "d_k": 32, "d_v": 64},
    "base_num_layers_2": {**BASE, "num_layers": 2},
    "base_num_layers_4": {**BASE, "num_layers": 4},
    "base_num_layers_8": {**BASE, "num_layers": 8},
    "base_d_model_256": {**BASE, "d_model": 256},
    "base_d_model_1024": {**BASE, "d_model": 1024},
    "base_d_ff_1024": {**BASE, "d_ff": 1024},
    "base_d_ff_4096": {**BASE, "d_ff": 4096},
    "base_dropout_0": {**BASE, "dropout": 0.0},
    "base_dropout_0.2": {**BASE, "dropout": 0.2},
    "base_label_smoothing_0": {**BASE, "label_smoothing": 0.0},
    "base_label_smoothing_0.2": {**BASE, "label_smoothing": 0.2},
    "base_learned_position": {**BASE, "position": "learned"},
}

DATA = ("subword", "vocab_size")
RUN = ("train_steps", "checkpoint_minutes", "average_last")
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
