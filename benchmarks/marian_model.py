"""MarianMTModel of transformers at the measured size."""

import argparse

import torch
import transformers

VERSION = f"{transformers.__version__}, torch {torch.__version__}"


def make(sizes: argparse.Namespace) -> transformers.MarianMTModel:
    """Returns a model with random weights.

    Args:
        sizes: Flags of `common.sizes`.
    """
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        vocab_size=sizes.vocab_size,
        d_model=sizes.d_model,
        encoder_layers=sizes.num_layers,
        decoder_layers=sizes.num_layers,
        encoder_ffn_dim=sizes.d_ff,
        decoder_ffn_dim=sizes.d_ff,
        encoder_attention_heads=sizes.num_heads,
        decoder_attention_heads=sizes.num_heads,
        activation_function="relu",
        dropout=getattr(sizes, "dropout", 0.0),
        scale_embedding=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        forced_eos_token_id=None,
        decoder_start_token_id=1,
    )
    return transformers.MarianMTModel(config)
