"""Parameters and floating-point operations of a Transformer, from its configuration."""

from typing import Any

from t2t_keras.config import TransformerConfig


def _head_sizes(config: TransformerConfig) -> tuple[int, int]:
    d_k = config.d_k or config.d_model // config.num_heads
    return d_k, config.d_v or d_k


def count_parameters(config: TransformerConfig) -> int:
    """Returns the number of trainable parameters, without building the model.

    Args:
        config: Configuration of the model, including `source_vocab_size`.
    """
    d_model, (d_k, d_v) = config.d_model, _head_sizes(config)
    queries, values = config.num_heads * d_k, config.num_heads * d_v
    attention = d_model * (2 * queries + 2 * values)
    if config.attention_bias:
        attention += 2 * queries + values + d_model
    is_recurrent = config.decoder_autoregression == "ssru"
    autoregression = 2 * d_model**2 + d_model if is_recurrent else attention
    feed_forward = 2 * d_model * config.d_ff + config.d_ff + d_model
    norm = 2 * d_model
    layers, decoder_layers = config.depths()
    encoder = layers * (attention + feed_forward + 2 * norm)
    decoder_layer = autoregression + attention + feed_forward + 3 * norm
    decoder = decoder_layers * decoder_layer
    source_vocab_size, target_vocab_size = config.vocab_sizes()
    embeddings = target_vocab_size * d_model
    if not config.share_embeddings:
        embeddings += source_vocab_size * d_model
    if not config.tie_output:
        embeddings += target_vocab_size * d_model
    if config.logits_bias:
        embeddings += target_vocab_size
    last_norms = 2 * norm if config.pre_norm else 0
    is_learned = config.position == "learned"
    positions = 2 * config.max_length * d_model if is_learned else 0
    return encoder + decoder + embeddings + last_norms + positions


def forward_flops(
    config: TransformerConfig, source_length: float, target_length: float
) -> float:
    """Returns the floating-point operations of a forward pass over one sentence pair.

    A multiplication and an addition count as two operations. Operations that are linear
    in the number of positions and in d_model (normalization, residual connections,
    softmax, embedding, the recurrence of an SSRU) are ignored.

    Args:
        config: Configuration of the model, including `source_vocab_size`.
        source_length: Number of source tokens.
        target_length: Number of target tokens.
    """
    d_model, heads = config.d_model, config.num_heads
    d_k, d_v = _head_sizes(config)

    def attention(queries: float, keys: float, visible: float) -> float:
        projections = queries * heads * (d_k + d_v) + keys * heads * (d_k + d_v)
        return 2 * (d_model * projections + queries * visible * heads * (d_k + d_v))

    def self_attention(length: float) -> float:
        window = config.attention_window
        neighbours = length if window is None else 2 * (window // 2) + 1
        return attention(length, length, min(length, neighbours))

    def autoregression(length: float) -> float:
        if config.decoder_autoregression == "ssru":
            return 2 * length * 2 * d_model**2
        return self_attention(length)

    def feed_forward(length: float) -> float:
        return 4 * length * d_model * config.d_ff

    encoder = self_attention(source_length) + feed_forward(source_length)
    decoder = (
        autoregression(target_length)
        + attention(target_length, source_length, source_length)
        + feed_forward(target_length)
    )
    logits = 2 * target_length * d_model * config.vocab_sizes()[1]
    layers, decoder_layers = config.depths()
    return layers * encoder + decoder_layers * decoder + logits


def training_flops(
    config: TransformerConfig, source_length: float, target_length: float, pairs: float
) -> float:
    """Returns the floating-point operations of training on a number of pairs.

    The backward pass takes twice as many operations as the forward pass. The paper
    (section 6.1, Table 2) uses another estimate; see `paper_flops`.

    Args:
        config: Configuration of the model, including `source_vocab_size`.
        source_length: Mean number of source tokens per pair.
        target_length: Mean number of target tokens per pair.
        pairs: Number of pairs processed, including repetitions. R-Drop processes each
            pair of a batch twice.
    """
    return 3 * pairs * forward_flops(config, source_length, target_length)


def paper_flops(hours: float, processors: int, sustained_flops: float) -> float:
    """Estimates the training cost as in Table 2, in floating-point operations.

    Args:
        hours: Training time in hours.
        processors: Number of processors.
        sustained_flops: Sustained operations per second of one processor, such as
            9.5e12 for a P100.
    """
    return hours * 3600 * processors * sustained_flops


PAPER_COSTS: dict[str, dict[str, Any]] = {
    "base": {"hours": 12.0, "processors": 8, "sustained_flops": 9.5e12},
    "big": {"hours": 84.0, "processors": 8, "sustained_flops": 9.5e12},
}
"""Arguments of `paper_flops` for the paper's 3.3e18 and 2.3e19 (section 5.2, footnote
5)."""
