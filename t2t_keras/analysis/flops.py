"""Floating-point operations of a Transformer, counted from its arguments."""

from typing import Any


def forward_flops(
    arguments: dict[str, Any], source_length: float, target_length: float
) -> float:
    """Counts the operations of a forward pass over one sentence pair.

    A multiplication and an addition are two operations. What is linear in the number
    of positions and in d_model alone (normalization, residuals, softmax, embedding)
    is left out.

    Args:
        arguments: Those of `Transformer`, the sizes among them.
        source_length: Tokens of the source.
        target_length: Tokens of the target.
    """
    d_model, d_ff, heads = (arguments[k] for k in ("d_model", "d_ff", "num_heads"))
    d_k = arguments.get("d_k") or d_model // heads
    d_v = arguments.get("d_v") or d_k
    layers = arguments["num_layers"]
    decoder_layers = arguments.get("num_decoder_layers") or layers
    vocab_size = arguments.get("target_vocab_size") or arguments["source_vocab_size"]

    def attention(queries: float, keys: float) -> float:
        projections = queries * heads * (d_k + d_v) + keys * heads * (d_k + d_v)
        return 2 * (d_model * projections + queries * keys * heads * (d_k + d_v))

    def feed_forward(length: float) -> float:
        return 4 * length * d_model * d_ff

    encoder = attention(source_length, source_length) + feed_forward(source_length)
    decoder = (
        attention(target_length, target_length)
        + attention(target_length, source_length)
        + feed_forward(target_length)
    )
    logits = 2 * target_length * d_model * vocab_size
    return layers * encoder + decoder_layers * decoder + logits


def training_flops(
    arguments: dict[str, Any], source_length: float, target_length: float, pairs: float
) -> float:
    """Counts the operations of training on so many pairs.

    The backward pass takes twice as many as the forward pass. The paper (section 6.1,
    Table 2) counts otherwise: time times processors times their sustained rate.

    Args:
        arguments: As of `forward_flops`.
        source_length: Mean tokens of a source.
        target_length: Mean tokens of a target.
        pairs: Number of pairs seen, those seen again included.
    """
    return 3 * pairs * forward_flops(arguments, source_length, target_length)
