"""Parameters and floating-point operations of a Transformer, from its arguments."""

from typing import Any

from t2t_keras.errors import UserError


def _sizes(arguments: dict[str, Any]) -> dict[str, int]:
    """Returns the sizes with what they default to filled in."""
    heads, d_model = arguments["num_heads"], arguments["d_model"]
    if not arguments.get("d_k") and d_model % heads:
        raise UserError(
            "Without d_k, d_model must be a multiple of num_heads. "
            f"Received: d_model={d_model}, num_heads={heads}"
        )
    d_k = arguments.get("d_k") or d_model // heads
    layers = arguments["num_layers"]
    source_vocab_size = arguments["source_vocab_size"]
    return {
        "d_model": d_model,
        "d_ff": arguments["d_ff"],
        "heads": heads,
        "d_k": d_k,
        "d_v": arguments.get("d_v") or d_k,
        "layers": layers,
        "decoder_layers": arguments.get("num_decoder_layers") or layers,
        "source_vocab_size": source_vocab_size,
        "target_vocab_size": arguments.get("target_vocab_size") or source_vocab_size,
    }


def count_parameters(arguments: dict[str, Any]) -> int:
    """Counts the numbers that training learns, without building the model.

    Args:
        arguments: Those of `Transformer`, the sizes among them.
    """
    s = _sizes(arguments)
    d_model = s["d_model"]
    queries, values = s["heads"] * s["d_k"], s["heads"] * s["d_v"]
    attention = d_model * (2 * queries + 2 * values)
    if arguments.get("attention_bias"):
        attention += 2 * queries + values + d_model
    feed_forward = 2 * d_model * s["d_ff"] + s["d_ff"] + d_model
    norm = 2 * d_model
    encoder = s["layers"] * (attention + feed_forward + 2 * norm)
    decoder = s["decoder_layers"] * (2 * attention + feed_forward + 3 * norm)
    embeddings = s["target_vocab_size"] * d_model
    if not arguments.get("share_embeddings", True):
        embeddings += s["source_vocab_size"] * d_model
    last_norms = 2 * norm if arguments.get("pre_norm") else 0
    is_learned = arguments.get("position") == "learned"
    positions = 2 * arguments.get("max_length", 1024) * d_model if is_learned else 0
    return encoder + decoder + embeddings + last_norms + positions


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
    s = _sizes(arguments)
    d_model, heads, d_k, d_v = (s[name] for name in ("d_model", "heads", "d_k", "d_v"))

    def attention(queries: float, keys: float) -> float:
        projections = queries * heads * (d_k + d_v) + keys * heads * (d_k + d_v)
        return 2 * (d_model * projections + queries * keys * heads * (d_k + d_v))

    def feed_forward(length: float) -> float:
        return 4 * length * d_model * s["d_ff"]

    encoder = attention(source_length, source_length) + feed_forward(source_length)
    decoder = (
        attention(target_length, target_length)
        + attention(target_length, source_length)
        + feed_forward(target_length)
    )
    logits = 2 * target_length * d_model * s["target_vocab_size"]
    return s["layers"] * encoder + s["decoder_layers"] * decoder + logits


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
        pairs: Number of pairs seen, those seen again included: with R-Drop, each
            of a batch is seen twice.
    """
    return 3 * pairs * forward_flops(arguments, source_length, target_length)


def paper_flops(hours: float, processors: int, sustained_flops: float) -> float:
    """Estimates training cost as Table 2 does: time, processors and their rate.

    Args:
        hours: Training time.
        processors: How many trained together.
        sustained_flops: Operations of one in a second, such as 9.5e12 of a P100.
    """
    return hours * 3600 * processors * sustained_flops


PAPER_COSTS: dict[str, dict[str, Any]] = {
    "base": {"hours": 12.0, "processors": 8, "sustained_flops": 9.5e12},
    "big": {"hours": 84.0, "processors": 8, "sustained_flops": 9.5e12},
}
"""What the paper's 3.3e18 and 2.3e19 come from (section 5.2, footnote 5)."""
