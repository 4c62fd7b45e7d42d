"""The simpler simple recurrent unit, in place of decoder self-attention."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.layers.linear import Linear
from t2t_keras.layers.linear_recurrence import linear_recurrence
from t2t_keras.layers.seeds import child_seed
from t2t_keras.layers.shapes import check_shape, require_shape, size_of


class SSRUResult(NamedTuple):
    """Output of `SSRU` with its state.

    Attributes:
        output: `[batch, length, d_model]` in the compute dtype.
        state: The state after these positions; see `SSRU.empty_cache`.
    """

    output: tf.Tensor
    state: tf.Tensor


@keras.saving.register_keras_serializable("t2t_keras")
class SSRU(keras.layers.Layer):
    """Simpler simple recurrent unit (Kim et al., 2019, section 3.1).

        f_t = sigmoid(x_t W_f + b_f)
        c_t = f_t * c_(t-1) + (1 - f_t) * (x_t W)
        h_t = max(0, c_t)

    A decoder with SSRUs instead of self-attention keeps one vector per layer and beam
    instead of the keys and values of all previous positions. Whole sequences are
    computed in parallel (`linear_recurrence`), in at least float32.

    Args:
        d_model: Size of input, state and output.
        seed: Random seed of initializers. Default 0.

    Call arguments:
        x: `[batch, length, d_model]` float, consecutive positions. With a cache of
            several beams, one position of each beam: `length` is the number of beams.
        cache: State after the previous positions: `empty_cache`, or `state` of an
            earlier result. Default: `x` begins with the first position.
        return_state: Whether to return the state too.

    Returns:
        `[batch, length, d_model]` in the compute dtype; with `return_state` or a cache,
        an `SSRUResult`.

    Raises:
        ValueError: If a call argument has the wrong shape.
    """

    def __init__(self, d_model: int, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.seed = seed
        self.candidate, self.forget_gate = (
            Linear(
                d_model,
                use_bias=use_bias,
                seed=child_seed(seed, name),
                dtype=self.dtype_policy,
                name=name,
            )
            for name, use_bias in (("candidate", False), ("forget_gate", True))
        )
        is_double = self.compute_dtype == "float64"
        self._state_dtype = tf.float64 if is_double else tf.float32

    def build(self, x_shape: Any = None) -> None:
        """Creates all weights. Their sizes do not depend on the input."""
        shape = (None, None, self.d_model)
        check_shape(x_shape or shape, shape, self, "x")
        self.candidate.build(shape)
        self.forget_gate.build(shape)
        self.built = True

    def empty_cache(self, batch: int | tf.Tensor, beams: int = 1) -> tf.Tensor:
        """Returns the state before the first position.

        Args:
            batch: Batch size.
            beams: Number of beams per row. Default 1.

        Returns:
            `[batch, beams, d_model]`, float32 or float64. In mixed precision, int32
            with the bits of float32: Keras casts floating-point arguments of layers
            to the compute dtype, in which the state would lose small changes.
        """
        return self._to_cache(tf.zeros([batch, beams, self.d_model], self._state_dtype))

    def reorder(self, cache: tf.Tensor, parents: tf.Tensor) -> tf.Tensor:
        """Returns the state of new beams.

        Args:
            cache: State of the beams, `[batch, beams, d_model]`.
            parents: `[batch, beams]` integer, the beam that each new beam continues.
        """
        return tf.gather(cache, parents, batch_dims=1)

    def call(
        self, x: tf.Tensor, cache: tf.Tensor | None = None, return_state: bool = False
    ) -> Any:
        """Computes the recurrence from the cached state on."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        candidate = tf.cast(self.candidate(x), self._state_dtype)
        forget = tf.sigmoid(tf.cast(self.forget_gate(x), self._state_dtype))
        inputs = (1 - forget) * candidate
        if cache is None:
            states = linear_recurrence(forget, inputs)
            last = states[:, -1:]
        else:
            rows, length = size_of(x, 0), size_of(x, 1)
            cache = require_shape(cache, (rows, None, self.d_model), self, "cache")
            is_sequence = cache.shape[1] == 1 and length != 1
            if not is_sequence:
                cache = require_shape(cache, (rows, length, None), self, "cache")
            previous = self._from_cache(cache)
            if is_sequence:
                states = _continue(previous, forget, inputs)
                last = tf.concat([previous, states], axis=1)[:, -1:]
            else:
                last = states = forget * previous + inputs
        output = tf.cast(tf.nn.relu(states), self.compute_dtype)
        if cache is None and not return_state:
            return output
        return SSRUResult(output, self._to_cache(last))

    def _to_cache(self, state: tf.Tensor) -> tf.Tensor:
        is_exact = self.compute_dtype == self._state_dtype
        return state if is_exact else tf.bitcast(state, tf.int32)

    def _from_cache(self, cache: tf.Tensor) -> tf.Tensor:
        is_exact = self.compute_dtype == self._state_dtype
        return cache if is_exact else tf.bitcast(cache, tf.float32)

    def compute_output_shape(self, x_shape: Any) -> Any:
        """Returns the shape of the output, which is that of `x`."""
        check_shape(x_shape, (None, None, self.d_model), self, "x")
        return tuple(x_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "d_model": self.d_model, "seed": self.seed}


def _continue(previous: tf.Tensor, decay: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """Computes the recurrence after a state, `[batch, 1, d_model]`."""
    before = tf.concat([previous, inputs], axis=1)
    states = linear_recurrence(tf.pad(decay, [[0, 0], [1, 0], [0, 0]]), before)
    return states[:, 1:]
