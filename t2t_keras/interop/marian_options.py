"""Translates the options that Marian stores in its models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from t2t_keras.config import TransformerConfig
from t2t_keras.errors import UserError
from t2t_keras.interop.tensors import MAX_SIZE

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "quick_gelu"}
"""Activations by Marian's names. Marian's GELU is x sigmoid(1.702 x)."""

_REQUIRED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "input-types": ([], ["sequence", "sequence"]),
    "right-left": (False,),
    "ulr": (False,),
    "lemma-dim-emb": (0,),
    "factors-dim-emb": (0,),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-flat-projection": (False,),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
}
"""The values of architecture switches that this project has layers for."""

_IRRELEVANT = {
    "version",
    # Other architectures: recurrent models, BERT and average attention.
    *("dim-rnn", "enc-type", "enc-cell", "enc-cell-depth", "layer-normalization"),
    *("dec-cell-base-depth", "dec-cell-high-depth", "skip", "char-highway"),
    *("char-stride", "char-conv-filters-num", "char-conv-filters-widths"),
    *("bert-train-type-embeddings", "bert-type-vocab-size"),
    *("transformer-aan-activation", "transformer-aan-depth"),
    *("transformer-aan-nogate", "transformer-dim-aan"),
    *("ulr-dim-emb", "ulr-trainable-transformation"),
    # Factored vocabularies, which `lemma-dim-emb` and the tensors tell.
    *("factors-combine", "lemma-dependency", "factor-predictor"),
    # Initialization, training, and speed without a change of the output.
    *("transformer-depth-scaling", "transformer-guided-alignment-layer"),
    *("output-approx-knn", "embedding-fix-src", "embedding-fix-trg"),
}
_READ = {
    *("dim-emb", "dim-vocabs", "enc-depth", "dec-depth", "dec-cell"),
    *("transformer-heads", "transformer-dim-ffn", "transformer-decoder-dim-ffn"),
    *("transformer-ffn-activation", "transformer-decoder-autoreg"),
    *("transformer-preprocess", "transformer-postprocess"),
    *("transformer-postprocess-emb", "transformer-postprocess-top"),
    *("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all"),
    "output-omit-bias",
}


def read_config(path: Path, options: Mapping[str, Any]) -> TransformerConfig:
    """Returns the configuration of a model, with Marian's vocabulary sizes.

    Args:
        path: The model's file, for messages.
        options: The model's options (`special:model.yml`).

    Raises:
        UserError: If an option is missing or unknown, or its value cannot be
            represented.
    """
    for name, value in options.items():
        required = _REQUIRED.get(name)
        if required is not None and value not in required:
            raise UserError(
                f"{path}: {name}={value!r} is not supported. It must be "
                f"{' or '.join(map(repr, required))}."
            )
        if name not in _REQUIRED and name not in _IRRELEVANT and name not in _READ:
            raise UserError(f"{path}: {name}={value!r} is not supported.")
    if "type" not in options:
        raise UserError(f"{path} is no model of Marian: its options lack type.")
    reader = _Reader(path, options)
    sizes = options.get("dim-vocabs")
    if (
        not isinstance(sizes, list)
        or len(sizes) != 2
        or not all(type(size) is int and 1 <= size <= MAX_SIZE for size in sizes)
    ):
        raise UserError(
            f"{path}: dim-vocabs must be two positive integers. Received: {sizes!r:.80}"
        )
    d_ff = reader.size("transformer-dim-ffn")
    if options.get("transformer-decoder-dim-ffn", 0) not in (0, d_ff):
        reader.refuse("transformer-decoder-dim-ffn", f"transformer-dim-ffn={d_ff}")
    is_all, is_src, is_tied = (
        reader.switch(f"tied-embeddings{end}") for end in ("-all", "-src", "")
    )
    try:
        return TransformerConfig(
            source_vocab_size=sizes[0],
            target_vocab_size=sizes[1],
            share_embeddings=is_all or is_src,
            tie_output=is_all or is_tied,
            logits_bias=not reader.switch("output-omit-bias"),
            num_layers=reader.size("enc-depth"),
            num_decoder_layers=reader.size("dec-depth"),
            d_model=reader.size("dim-emb"),
            d_ff=d_ff,
            num_heads=reader.size("transformer-heads"),
            activation=reader.one_of("transformer-ffn-activation", _ACTIVATIONS),
            attention_bias=True,
            decoder_autoregression=reader.autoregression(),
            position="sinusoidal_marian",
            pre_norm=reader.pre_norm(),
            norm_epsilon=1e-6,
        )
    except UserError as error:
        message = str(error)
        raise UserError(
            message if str(path) in message else f"{path}: {message}"
        ) from error


class _Reader:
    """Reads options and checks their values.

    Args:
        path: The model's file, for messages.
        options: The model's options.
    """

    def __init__(self, path: Path, options: Mapping[str, Any]) -> None:
        self._path = path
        self._options = options

    def refuse(self, name: str, expected: str) -> None:
        """Raises the `UserError` for an option's value."""
        raise UserError(
            f"{self._path}: {name}={self._options.get(name)!r} is not supported. It "
            f"must be {expected}."
        )

    def size(self, name: str) -> int:
        """Returns a positive integer."""
        value = self._options.get(name)
        if type(value) is not int or not 1 <= value <= MAX_SIZE:
            raise UserError(
                f"{self._path}: {name} must be a positive integer. Received: "
                f"{value!r:.40}"
            )
        return value

    def switch(self, name: str) -> bool:
        """Returns a truth value, false by default."""
        value = self._options.get(name, False)
        if type(value) is not bool:
            self.refuse(name, "true or false")
        return bool(value)

    def one_of(self, name: str, values: Mapping[str, str]) -> str:
        """Returns what belongs to a value."""
        value = self._options.get(name)
        if value not in [*values]:
            self.refuse(name, f"one of {', '.join(values)}")
        return values[str(value)]

    def autoregression(self) -> str:
        """Returns the kind of the decoder's first sub-layer."""
        name = "transformer-decoder-autoreg"
        kinds = {"self-attention": "self_attention", "rnn": "ssru"}
        kind = self.one_of(name, kinds)
        if kind == "ssru":
            self.one_of("dec-cell", {"ssru": ""})
        return kind

    def pre_norm(self) -> bool:
        """Returns whether the input of sub-layers is normalized, or the output."""
        steps = {
            name: str(self._options.get(f"transformer-{name}", "")).replace("d", "")
            for name in ("preprocess", "postprocess", "postprocess-top")
        }
        if self._options.get("transformer-postprocess-emb", "d") not in ("d", ""):
            self.refuse("transformer-postprocess-emb", "'d' or ''")
        forms = {("", "an", ""): False, ("n", "a", "n"): True}
        form = tuple(steps.values())
        if form not in forms:
            received = ", ".join(
                f"transformer-{name}={self._options.get(f'transformer-{name}')!r}"
                for name in steps
            )
            raise UserError(
                f"{self._path}: only post-norm (preprocess '', postprocess 'dan', "
                "postprocess-top '') and pre-norm ('n', 'da', 'n') are supported. "
                f"Received: {received}"
            )
        return forms[form]
