"""The Transformer of OpenNMT-tf at the size that is measured."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import opennmt
import tensorflow as tf

tf.get_logger().setLevel("ERROR")


def make(sizes: argparse.Namespace, **params: Any) -> opennmt.models.Model:
    """Returns a model with random weights.

    Args:
        sizes: As of `common.sizes`.
        **params: The model's own parameters.
    """
    dropout = getattr(sizes, "dropout", 0.0)
    model = opennmt.models.Transformer(
        num_layers=sizes.num_layers,
        num_units=sizes.d_model,
        num_heads=sizes.num_heads,
        ffn_inner_dim=sizes.d_ff,
        dropout=dropout,
        attention_dropout=0.0,
        ffn_dropout=0.0,
        mha_bias=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )
    vocabulary = Path(tempfile.mkdtemp(), "vocabulary.txt")
    # One more is added for what is unknown.
    words = [f"w{i}" for i in range(sizes.vocab_size - 4)]
    vocabulary.write_text("\n".join(["<blank>", "<s>", "</s>", *words]) + "\n")
    paths = dict.fromkeys(("source_vocabulary", "target_vocabulary"), str(vocabulary))
    model.initialize(paths, params=params)
    return model
