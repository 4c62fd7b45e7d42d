"""Ensembles: several models with the same vocabulary that decode together."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_keras.decoding.constraints import no_padding_or_start
from t2t_keras.errors import UserError
from t2t_keras.layers.masks import padding_mask
from t2t_keras.transformer import Transformer


class Ensemble:
    """Averages the token probabilities of its models.

    Args:
        models: One or more models with the same vocabulary sizes.

    Raises:
        UserError: If there is no model, or the vocabulary sizes differ.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        if not models:
            raise UserError("models must contain at least one model. Received: none")
        sizes = {
            (m.source_embedding.vocab_size, m.target_embedding.vocab_size)
            for m in models
        }
        if len(sizes) > 1:
            raise UserError(
                "The models of an ensemble must have the same vocabulary. Received: "
                f"(source, target) vocabulary sizes {sorted(sizes)}"
            )
        self.models = list(models)
        self.vocab_size = models[0].target_embedding.vocab_size

    def start(self, source: tf.Tensor, beams: int) -> Any:
        """Encodes the sources and returns the initial cache.

        Args:
            source: `[batch, source]` int32 ids, 0 for padding.
            beams: Number of beams per row.

        Returns:
            The cache for `step`; the first axis of every tensor is the batch.
        """
        return {
            "memory_mask": padding_mask(source),
            "models": [m.empty_cache(m.encode(source), beams) for m in self.models],
        }

    def reorder(self, cache: Any, parents: tf.Tensor) -> Any:
        """Returns the cache of new beams, each of which continues a previous beam.

        Args:
            cache: The cache that `step` returned for the previous beams.
            parents: `[batch, beam]` int32, the beam that each new beam continues.
        """
        pairs = zip(self.models, cache["models"], strict=True)
        caches = [model.reorder(member_cache, parents) for model, member_cache in pairs]
        return {**cache, "models": caches}

    def step(
        self,
        previous: tf.Tensor,
        position: tf.Tensor,
        ancestors: tf.Tensor,
        cache: Any,
    ) -> tuple[tf.Tensor, Any]:
        """Predicts the next token.

        Args:
            previous: `[batch, beam]` int32, the last token of each beam.
            position: Scalar int32, the position of these tokens in the outputs, the
                same for all beams.
            ancestors: `[batch, beam, (position + 1) * beam]` bool, the cached positions
                that each beam descends from, including the given tokens.
            cache: The cache that `start` or the previous call returned.

        Returns:
            The logits, `[batch, beam, vocab_size]` float32, and the cache with these
            positions appended.
        """
        positions = tf.fill([previous.shape[1]], position)
        logits, caches = [], []
        for model, member_cache in zip(self.models, cache["models"], strict=True):
            decoded = model.decode(
                previous,
                None,
                cache["memory_mask"],
                self_attention_mask=ancestors[:, tf.newaxis],
                positions=positions,
                cache=member_cache,
            )
            logits.append(tf.cast(decoded.logits, tf.float32))
            caches.append(decoded.cache)
        return mean_probability(logits), {**cache, "models": caches}


def mean_probability(logits: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the logarithm of the models' mean probability.

    The padding and start tokens are blocked.

    Args:
        logits: The logits of each model, `[..., vocab_size]` float32.

    Returns:
        `[..., vocab_size]` float32, not normalized if there is only one model.
    """
    blocked = no_padding_or_start(logits[0].shape[-1])
    if len(logits) == 1:
        return logits[0] + blocked
    log_probs = tf.stack([tf.nn.log_softmax(one + blocked) for one in logits])
    return tf.reduce_logsumexp(log_probs, axis=0) - math.log(len(logits))
