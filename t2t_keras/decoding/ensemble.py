"""Several models of one vocabulary that decode as one."""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_keras.decoding.constraints import no_padding_or_start
from t2t_keras.errors import UserError
from t2t_keras.layers.masks import padding_mask
from t2t_keras.transformer import Transformer


class Ensemble:
    """Averages the probabilities of its members, token by token.

    Args:
        models: One or more models with vocabularies of the same sizes.

    Raises:
        UserError: If there are none, or their vocabularies differ in size.
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        if not models:
            raise UserError("An ensemble has at least one model. Received: none")
        sizes = {
            (m.source_embedding.vocab_size, m.target_embedding.vocab_size)
            for m in models
        }
        if len(sizes) > 1:
            raise UserError(
                "The models of an ensemble have one vocabulary. Received sizes: "
                f"{sorted(sizes)}"
            )
        self.models = list(models)
        self.vocab_size = models[0].target_embedding.vocab_size

    def start(self, source: tf.Tensor) -> Any:
        """Encodes sentences.

        Args:
            source: `[batch, source]` int32 ids, 0 for padding.

        Returns:
            What `step` calls its cache; the first axis of every tensor is the batch.
        """
        return {
            "memory_mask": padding_mask(source),
            "models": [m.empty_cache(m.encode(source)) for m in self.models],
        }

    def step(
        self,
        previous: tf.Tensor,
        position: tf.Tensor,
        ancestors: tf.Tensor,
        cache: Any,
    ) -> tuple[tf.Tensor, Any]:
        """Scores what follows the tokens given last.

        Args:
            previous: `[batch, beam]` int32, those tokens.
            position: Scalar int32, their position in the outputs: the same for all
                beams.
            ancestors: `[batch, beam, (position + 1) * beam]` bool, which cached
                positions, these included, each beam descends from.
            cache: What `start` or the last call returned.

        Returns:
            `[batch, beam, vocab_size]` float32, logarithms of what is proportional to
            the probabilities, and the cache with these positions appended.
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
    """Returns the logarithm of several models' mean probability.

    Padding and start are no output, whatever a model scores them: they have none.

    Args:
        logits: Of each model `[..., vocab_size]` float32.

    Returns:
        Likewise, not normalized if there is one model.
    """
    no_output = no_padding_or_start(logits[0].shape[-1])
    if len(logits) == 1:
        return logits[0] + no_output
    log_probs = tf.stack([tf.nn.log_softmax(one + no_output) for one in logits])
    return tf.reduce_logsumexp(log_probs, axis=0) - math.log(len(logits))
