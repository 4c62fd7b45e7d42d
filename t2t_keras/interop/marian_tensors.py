"""Translates Marian's tensors into weights of this project.

In `.npz` archives and Bergamot's binary files, the tensors have the same names and
shapes. Kernels are `[in, out]`, the transpose of this project's; biases and gains are
`[1, n]`.
"""

from collections.abc import Sequence

import numpy as np

from t2t_keras.config import TransformerConfig
from t2t_keras.interop.sentencepiece_vocab import VocabularyOrder
from t2t_keras.interop.tensors import Tensors

NOT_NEEDED = ("_QuantMultA", "decoder_c_tt")
"""Ends of the names of tensors that the output does not depend on.

The first are scales for activations in integers; this project computes in floating
point. The second remains from training.
"""


def read_arrays(
    config: TransformerConfig,
    orders: tuple[VocabularyOrder, VocabularyOrder],
    tensors: Tensors,
) -> dict[str, np.ndarray]:
    """Returns the weights by variable path.

    Args:
        config: The configuration, with Marian's vocabulary sizes.
        orders: The source and the target vocabulary.
        tensors: Marian's tensors.

    Raises:
        UserError: If a tensor is missing, has the wrong shape, or is not known.
    """
    arrays = _embeddings(config, orders, tensors)
    for side, depth in zip(("encoder", "decoder"), config.depths(), strict=True):
        for layer in range(depth):
            block = _Layer(config, tensors, f"{side}_l{layer + 1}").read(side)
            prefix = f"transformer/{side}/layer_{layer}"
            arrays |= {f"{prefix}/{name}": array for name, array in block.items()}
        if config.pre_norm:
            for part, name in (("scale", "gamma"), ("bias", "beta")):
                arrays[f"transformer/{side}/final_norm/{name}"] = tensors.take(
                    f"{side}_top_ln_{part}", 1, config.d_model
                )[0]
    tensors.check_all_taken(but=NOT_NEEDED)
    return arrays


def _embeddings(
    config: TransformerConfig,
    orders: tuple[VocabularyOrder, VocabularyOrder],
    tensors: Tensors,
) -> dict[str, np.ndarray]:
    sizes, d_model, arrays = config.vocab_sizes(), config.d_model, {}
    source, target = orders
    if config.share_embeddings:
        shared = tensors.take("Wemb", sizes[1], d_model)
        arrays["transformer/embedding/embeddings"] = target.rows(shared)
    else:
        for side, order, size, name in (
            ("source", source, sizes[0], "encoder_Wemb"),
            ("target", target, sizes[1], "decoder_Wemb"),
        ):
            matrix = order.rows(tensors.take(name, size, d_model))
            arrays[f"transformer/{side}_embedding/embeddings"] = matrix
    output = "transformer/output_projection"
    if not config.tie_output:
        # Older versions transposed the matrix.
        if "decoder_ff_logit_out_Wt" in tensors:
            kernel = tensors.take("decoder_ff_logit_out_Wt", sizes[1], d_model)
        else:
            kernel = tensors.take("decoder_ff_logit_out_W", d_model, sizes[1]).T
        arrays[f"{output}/kernel"] = target.rows(kernel)
    if config.logits_bias:
        bias = tensors.take("decoder_ff_logit_out_b", 1, sizes[1])
        arrays[f"{output}/bias"] = target.rows(bias[0])
    return arrays


class _Layer:
    """Reads the tensors of one layer.

    Args:
        config: The configuration.
        tensors: Marian's tensors.
        prefix: Beginning of the names, such as "encoder_l1".
    """

    def __init__(
        self, config: TransformerConfig, tensors: Tensors, prefix: str
    ) -> None:
        self._config = config
        self._tensors = tensors
        self._prefix = prefix
        self._arrays: dict[str, np.ndarray] = {}

    def read(self, side: str) -> dict[str, np.ndarray]:
        """Returns the arrays of a layer by the end of the variable's path."""
        d_model, d_ff = self._config.d_model, self._config.d_ff
        if side == "decoder" and self._config.decoder_autoregression == "ssru":
            self._linear("ssru/candidate", [("rnn_W", "")], d_model, d_model)
            self._linear("ssru/forget_gate", [("rnn_Wf", "rnn_bf")], d_model, d_model)
            self._norm("ssru", "rnn_ffn")
        else:
            self._attention("self_attention/query_key_value", "self", "qkv")
            self._attention("self_attention/output_projection", "self", "o")
            self._norm("self_attention", "self_Wo")
        if side == "decoder":
            self._attention("cross_attention/query", "context", "q")
            self._attention("cross_attention/key_value", "context", "kv")
            self._attention("cross_attention/output_projection", "context", "o")
            self._norm("cross_attention", "context_Wo")
        self._linear("feed_forward/inner", [("ffn_W1", "ffn_b1")], d_model, d_ff)
        self._linear("feed_forward/outer", [("ffn_W2", "ffn_b2")], d_ff, d_model)
        self._norm("feed_forward", "ffn_ffn")
        return self._arrays

    def _take(self, name: str, *shape: int) -> np.ndarray:
        return self._tensors.take(f"{self._prefix}_{name}", *shape)

    def _attention(self, ours: str, theirs: str, parts: str) -> None:
        names = [(f"{theirs}_W{part}", f"{theirs}_b{part}") for part in parts]
        self._linear(ours, names, self._config.d_model, self._config.d_model)

    def _linear(
        self, ours: str, theirs: Sequence[tuple[str, str]], size: int, width: int
    ) -> None:
        """Joins linear layers of the same input: `[width * n, size]`."""
        kernels = [self._take(kernel, size, width).T for kernel, _ in theirs]
        self._arrays[f"{ours}/kernel"] = np.concatenate(kernels)
        if all(bias for _, bias in theirs):
            biases = [self._take(bias, 1, width)[0] for _, bias in theirs]
            self._arrays[f"{ours}/bias"] = np.concatenate(biases)

    def _norm(self, ours: str, theirs: str) -> None:
        end = "_pre" if self._config.pre_norm else ""
        for part, name in (("scale", "gamma"), ("bias", "beta")):
            self._arrays[f"{ours}_residual/norm/{name}"] = self._take(
                f"{theirs}_ln_{part}{end}", 1, self._config.d_model
            )[0]
