"""The Transformer of OpenNMT-tf at the measured size."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import multi30k
import opennmt
import tensorflow as tf

tf.get_logger().setLevel("ERROR")


def base(sizes: argparse.Namespace) -> opennmt.models.Model:
    """Returns a model without vocabulary and weights.

    Args:
        sizes: Flags of `common.sizes`.
    """
    return opennmt.models.Transformer(
        num_layers=sizes.num_layers,
        num_units=sizes.d_model,
        num_heads=sizes.num_heads,
        ffn_inner_dim=sizes.d_ff,
        dropout=getattr(sizes, "dropout", 0.0),
        attention_dropout=0.0,
        ffn_dropout=0.0,
        mha_bias=False,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
    )


def make(sizes: argparse.Namespace, **params: Any) -> opennmt.models.Model:
    """Returns a model with random weights and tokens w0, w1, ...

    Args:
        sizes: Flags of `common.sizes`.
        **params: Parameters of the model.
    """
    model = base(sizes)
    vocabulary = Path(tempfile.mkdtemp(), "vocabulary.txt")
    # OpenNMT-tf adds a token for unknown words.
    words = [f"w{i}" for i in range(sizes.vocab_size - 4)]
    vocabulary.write_text("\n".join(["<blank>", "<s>", "</s>", *words]) + "\n")
    paths = dict.fromkeys(("source_vocabulary", "target_vocabulary"), str(vocabulary))
    model.initialize(paths, params=params)
    return model


def text_data() -> dict[str, Any]:
    """Returns the data configuration for Multi30k."""
    tokenization = {
        "type": "OpenNMTTokenizer",
        "params": {"mode": "none", "sp_model_path": str(multi30k.SENTENCEPIECE)},
    }
    sides = ("source", "target")
    return {
        **{f"{side}_vocabulary": str(multi30k.VOCABULARY) for side in sides},
        **{f"{side}_tokenization": tokenization for side in sides},
        # As in this project, sources end with EOS.
        "source_sequence_controls": {"end": True},
    }
