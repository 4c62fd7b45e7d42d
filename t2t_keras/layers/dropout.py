"""Dropout (section 5.4)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.errors import UserError


@keras.saving.register_keras_serializable("t2t_keras")
class Dropout(keras.layers.Layer):
    """Sets a fraction of the input to zero and scales the rest by 1 / (1 - rate).

    The mask is a pure function of the seed, the call counter and the replica. The
    counter is a variable of the layer, so a restored model continues with the same
    sequence of masks. Replicas draw different masks. Each element uses one 16-bit
    random integer, which costs a fourth of a random float. Rates that are not close
    to a multiple of 1/65536 use 64-bit integers.

    Args:
        rate: Fraction of elements to drop, 0 <= rate < 1.
        seed: Random seed of the masks, an integer. Default 0.

    Call arguments:
        inputs: Float tensor of any shape.
        training: Whether to apply dropout. Otherwise the input is returned unchanged.

    Returns:
        A tensor with the shape and dtype of `inputs`.

    Raises:
        UserError: If `rate` is outside [0, 1), or so close to 1 that 1 / (1 - rate)
            overflows the compute dtype.
    """

    def __init__(self, rate: float, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise UserError(f"rate must be in [0, 1). Received: rate={rate}")
        largest = float(tf.as_dtype(self.compute_dtype).max)
        if 1 / (1 - rate) > largest:
            raise UserError(
                f"1 / (1 - rate) must be at most {largest:g}, the maximum of "
                f"{self.compute_dtype}. Received: rate={rate}"
            )
        self.rate = rate
        self.seed = seed

    def build(self, input_shape: Any) -> None:
        """Creates the call counter."""
        if self.rate:
            # Each replica has its own counter, without synchronization.
            self.calls = keras.Variable(
                initializer="zeros",
                shape=(),
                dtype="int32",
                trainable=False,
                name="calls",
                synchronization="on_read",
                aggregation="only_first_replica",
            )
        self.built = True

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Applies dropout in training."""
        if not self.rate or not training:
            return inputs
        replica = tf.distribute.get_replica_context()
        replica_id = replica.replica_id_in_sync_group if replica else 0
        call = self.calls.value + 0
        self.calls.assign_add(1)
        # The second word of the seed combines call and replica. It is unique for up to
        # 2^24 calls on each of 256 replicas.
        seed = tf.stack([self.seed, call + tf.cast(replica_id, tf.int32) * 2**24])
        shape = tf.shape(inputs)
        size = tf.reduce_prod(shape)
        if self._is_near(16):
            words = tf.random.stateless_uniform(
                [(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.int32
            )
            bits = tf.reshape(tf.bitcast(words, tf.int16), [-1])[:size]
        else:
            bits = tf.random.stateless_uniform(
                [size], seed, minval=None, maxval=None, dtype=tf.int64
            )
        # A fraction `rate` of all integers of the dtype is below the threshold.
        threshold = round(self.rate * 2 ** (8 * bits.dtype.size)) + bits.dtype.min
        keep = tf.reshape(bits >= tf.constant(threshold, bits.dtype), shape)
        scale = tf.where(keep, tf.cast(1 / (1 - self.rate), inputs.dtype), 0)
        return inputs * scale

    def _is_near(self, bits: int) -> bool:
        """Returns whether integers with this number of bits represent the rate well."""
        error = abs(round(self.rate * 2**bits) / 2**bits - self.rate)
        return error <= 1e-3 * min(self.rate, 1 - self.rate)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the output shape, which equals the input shape."""
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
