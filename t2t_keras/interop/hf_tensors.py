"""The weights of a model under Hugging Face's names, in its order of dimensions."""

import math
from collections.abc import Mapping

import numpy as np

from t2t_keras.config import TransformerConfig
from t2t_keras.special_tokens import BOS_ID

UNUSED_BIAS = -1e4
"""Logits bias of rows without a token: probability 0, and finite in float16."""

START_POSITIONS = "model.decoder.embed_positions.weight"
"""The decoder's positional encoding. That of a Marian model may include the embedding
of the start token."""

_PROJECTIONS = {
    "query": ("q",),
    "key_value": ("k", "v"),
    "query_key_value": ("q", "k", "v"),
    "output_projection": ("out",),
}
"""The projections that are fused here, in the order of their rows."""

_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}


def dimension_order(config: TransformerConfig) -> np.ndarray:
    """Returns the dimension of this project for each dimension of Hugging Face.

    Its sinusoids have all sines before all cosines. The paper's interleave them, which
    is the same model with its dimensions in another order.

    Returns:
        `[d_model]` integers.
    """
    order = np.arange(config.d_model)
    if config.position == "sinusoidal":
        order = np.concatenate([order[::2], order[1::2]])
    return order


class HuggingFaceTensors:
    """Renames, splits and reorders the weights of a model.

    Args:
        config: The configuration, with vocabulary sizes.
        arrays: The weights by variable path, as in checkpoints.

    Attributes:
        tensors: The tensors by Hugging Face's names, float32. Linear layers have
            biases, which are zeros if the model has none.
    """

    def __init__(
        self, config: TransformerConfig, arrays: Mapping[str, np.ndarray]
    ) -> None:
        self._arrays = arrays
        self._order = dimension_order(config)
        self.tensors: dict[str, np.ndarray] = {}
        for side, depth in zip(("encoder", "decoder"), config.depths(), strict=True):
            for layer in range(depth):
                self._add_layer(
                    f"transformer/{side}/layer_{layer}", f"model.{side}.layers.{layer}"
                )
            if config.pre_norm:
                self._add_norm(
                    f"transformer/{side}/final_norm", f"model.{side}.layer_norm"
                )

    def add_embeddings(self, rows: int, is_tied: bool) -> None:
        """Adds the embeddings, the output matrix and the bias of the logits.

        Args:
            rows: Number of rows of each matrix. Rows beyond the vocabulary are zeros,
                and their tokens are never produced.
            is_tied: Whether matrices that are equal by the architecture are stored
                once.
        """
        shared = self._arrays.get("transformer/embedding/embeddings")
        source, target = self._embeddings("source"), self._embeddings("target")
        output = self._arrays.get("transformer/output_projection/kernel", target)
        matrices = {}
        if shared is not None:
            matrices["model.shared"] = shared
        if shared is None or not is_tied:
            matrices["model.encoder.embed_tokens"] = source
            matrices["model.decoder.embed_tokens"] = target
        if not is_tied:
            matrices["lm_head"] = output
        for name, matrix in matrices.items():
            self.tensors[f"{name}.weight"] = _lengthened(matrix[:, self._order], rows)
        bias = self._arrays.get(
            "transformer/output_projection/bias", np.zeros(len(target), np.float32)
        )
        bias = _lengthened(bias, rows, UNUSED_BIAS)
        self.tensors["final_logits_bias"] = bias[np.newaxis]

    def _embeddings(self, side: str) -> np.ndarray:
        shared = self._arrays.get("transformer/embedding/embeddings")
        if shared is not None:
            return shared
        return self._arrays[f"transformer/{side}_embedding/embeddings"]

    def add_positions(self, length: int) -> None:
        """Adds the sinusoids, which Pegasus models store.

        Args:
            length: Number of positions.
        """
        for side in ("encoder", "decoder"):
            table = sinusoids(length, len(self._order))
            self.tensors[f"model.{side}.embed_positions.weight"] = table

    def add_start_position(self, length: int) -> None:
        """Adds the decoder's sinusoids with the start token's embedding at position 0.

        The start token of Marian models has an embedding of zeros: CTranslate2's
        converter relies on it.

        Args:
            length: Number of positions.
        """
        start = self._embeddings("target")[BOS_ID, self._order]
        if start.any():
            table = sinusoids(length, len(start))
            table[0] += start * np.float32(math.sqrt(len(start)))
            self.tensors[START_POSITIONS] = table

    def _add_layer(self, ours: str, theirs: str) -> None:
        """Adds a layer of the encoder or decoder."""
        for attention, name in _ATTENTIONS.items():
            if f"{ours}/{attention}_residual/norm/gamma" not in self._arrays:
                continue  # Encoder layers have no cross-attention.
            for fused, parts in _PROJECTIONS.items():
                path = f"{ours}/{attention}/{fused}"
                if f"{path}/kernel" in self._arrays:
                    names = [f"{theirs}.{name}.{part}_proj" for part in parts]
                    self._add_linear(path, names, fused == "output_projection")
            self._add_norm(
                f"{ours}/{attention}_residual/norm", f"{theirs}.{name}_layer_norm"
            )
        self._add_linear(f"{ours}/feed_forward/inner", [f"{theirs}.fc1"], False)
        self._add_linear(f"{ours}/feed_forward/outer", [f"{theirs}.fc2"], True)
        self._add_norm(
            f"{ours}/feed_forward_residual/norm", f"{theirs}.final_layer_norm"
        )

    def _add_linear(self, ours: str, theirs: list[str], is_output: bool) -> None:
        """Adds linear layers that are one layer here.

        Args:
            ours: Path of the layer.
            theirs: Names of the layers, in the order of the rows of the kernel.
            is_output: Whether the layer computes `d_model` dimensions rather than
                reading them.
        """
        kernel = self._arrays[f"{ours}/kernel"]
        bias = self._arrays.get(f"{ours}/bias", np.zeros(len(kernel), np.float32))
        if is_output:
            kernel, bias = kernel[self._order], bias[self._order]
        else:
            kernel = kernel[:, self._order]
        parts = (np.split(each, len(theirs)) for each in (kernel, bias))
        for name, weight, offset in zip(theirs, *parts, strict=True):
            self.tensors[f"{name}.weight"] = weight
            self.tensors[f"{name}.bias"] = offset

    def _add_norm(self, ours: str, theirs: str) -> None:
        """Adds a layer normalization."""
        for name, part in (("gamma", "weight"), ("beta", "bias")):
            array = self._arrays[f"{ours}/{name}"]
            self.tensors[f"{theirs}.{part}"] = array[self._order]


def sinusoids(length: int, d_model: int) -> np.ndarray:
    """Returns the positional encoding of Hugging Face's models.

    All sines of section 3.5 come before all cosines.

    Args:
        length: Number of positions.
        d_model: Size of the encoding.

    Returns:
        `[length, d_model]` float32.
    """
    angles = np.arange(length)[:, np.newaxis] / 10000 ** (
        np.arange(0, d_model, 2) / d_model
    )
    both = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return both[:, :d_model].astype(np.float32)


def _lengthened(array: np.ndarray, rows: int, value: float = 0.0) -> np.ndarray:
    """Returns an array with rows appended."""
    missing = [(0, rows - len(array)), *[(0, 0)] * (array.ndim - 1)]
    return np.pad(array, missing, constant_values=value)
