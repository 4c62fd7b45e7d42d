"""The Transformer (Vaswani et al., 2017): decode(encode(source))."""

from pathlib import Path
from typing import Any

from t2t_keras.keras_backend import require_tensorflow

require_tensorflow()

import keras
import tensorflow as tf

from t2t_keras.config.transformer_config import TransformerConfig
from t2t_keras.layers.config_layer import Configured
from t2t_keras.layers.decoder import Decoder
from t2t_keras.layers.decoder_outputs import DecoderCache
from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.embedding import SharedEmbedding
from t2t_keras.layers.encoder import Encoder
from t2t_keras.layers.masks import causal_mask, padding_mask
from t2t_keras.layers.output_projection import OutputProjection
from t2t_keras.layers.output_weights import OutputWeights
from t2t_keras.layers.positional_encoding import POSITIONAL_ENCODINGS
from t2t_keras.layers.seeds import child_seed
from t2t_keras.layers.shapes import require_shape, size_of
from t2t_keras.layers.symbolic_calls import TracedOutputs
from t2t_keras.transformer_outputs import DecodeResult, TransformerResult


@keras.saving.register_keras_serializable("t2t_keras")
class Transformer(Configured, TracedOutputs, keras.Model):
    """The encoder-decoder model of "Attention Is All You Need" (Figure 1).

    The constructor creates all weights.

    Args:
        config: The configuration. Default: the paper's base model, for which
            `source_vocab_size` must be given.
        **kwargs: Individual fields of the configuration (see `Configured`), and `name`
            and `dtype` (such as "mixed_bfloat16") of the Keras model.

    Call arguments:
        inputs: Dict with the keys "source" and "target": `[batch, source]` and
            `[batch, target]` integer ids, 0 for padding. The target begins with the
            start token: position t of the output predicts position t + 1 of the target.
        return_attention_scores: Whether to return the attention weights too.
        training: Whether to apply dropout.

    Returns:
        Logits `[batch, target, target_vocab_size]` in the compute dtype; with
        `return_attention_scores`, a `TransformerResult`.

    Raises:
        UserError: If a value is not allowed, or no vocabulary size is given.
    """

    built: bool

    def __init__(self, config: TransformerConfig | None = None, **kwargs: Any) -> None:
        # Checkpoints store arrays by variable path, which begins with this name.
        kwargs.setdefault("name", "transformer")
        super().__init__(config, **kwargs)
        config = self.config
        source_vocab_size, target_vocab_size = config.vocab_sizes()
        seed, d_model = config.seed, config.d_model
        share = config.share_embeddings
        policy = self.dtype_policy

        def embedding(vocab_size: int, name: str) -> SharedEmbedding:
            return SharedEmbedding(
                vocab_size, d_model, child_seed(seed, name), dtype=policy, name=name
            )

        self.target_embedding = embedding(
            target_vocab_size,
            "embedding" if share else "target_embedding",
        )
        self.source_embedding = (
            self.target_embedding
            if share
            else embedding(source_vocab_size, "source_embedding")
        )
        # The logits of the paper need no weights but the target embeddings.
        self.output_weights = (
            OutputWeights(
                target_vocab_size,
                d_model,
                use_matrix=not config.tie_output,
                use_bias=config.logits_bias,
                seed=child_seed(seed, "output_projection"),
                dtype=policy,
                name="output_projection",
            )
            if config.logits_bias or not config.tie_output
            else None
        )
        self.source_position, self.target_position = (
            POSITIONAL_ENCODINGS[config.position](
                d_model,
                config.max_length,
                child_seed(seed, name),
                dtype=policy,
                name=name,
            )
            for name in ("source_position", "target_position")
        )
        self.source_dropout, self.target_dropout = (
            Dropout(config.dropout, child_seed(seed, name), dtype=policy, name=name)
            for name in ("source_dropout", "target_dropout")
        )
        self.encoder = Encoder(
            config, seed=child_seed(seed, "encoder"), dtype=policy, name="encoder"
        )
        self.decoder = Decoder(
            config, seed=child_seed(seed, "decoder"), dtype=policy, name="decoder"
        )
        self.build({name: (None, None) for name in ("source", "target")})

    def build(self, input_shape: Any = None) -> None:
        """Creates all weights. Their sizes do not depend on the input."""
        if self.built:
            return
        ids, shape = (None, None), (None, None, self.config.d_model)
        self.target_embedding.build(ids)
        if self.source_embedding is not self.target_embedding:
            self.source_embedding.build(ids)
        if self.output_weights:
            self.output_weights.build(shape)
        for side in (self.source_position, self.target_position):
            side.build(shape)
        for side in (self.source_dropout, self.target_dropout):
            side.build(shape)
        self.encoder.build(shape)
        self.decoder.build(shape)
        self.built = True

    def encode(
        self,
        source: tf.Tensor,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Encodes source tokens to the memory that the decoder attends to.

        Args:
            source: `[batch, source]` integer ids, 0 for padding.
            return_attention_scores: Whether to return the attention weights too.
            training: Whether to apply dropout.

        Returns:
            `[batch, source, d_model]`; with `return_attention_scores`, an
            `EncoderResult`.
        """
        x = self.source_position(self.source_embedding(source))
        x = self.source_dropout(x, training=training)
        return self.encoder(
            x,
            attention_mask=padding_mask(source),
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def empty_cache(self, memory: tf.Tensor, beams: int = 1) -> DecoderCache:
        """Returns an empty cache for the first decoding step.

        Args:
            memory: `[batch, source, d_model]` float, the result of `encode`.
            beams: Number of beams per row. Default 1. See `Decoder.empty_cache`.
        """
        return self.decoder.empty_cache(memory, beams)

    def reorder(self, cache: DecoderCache, parents: tf.Tensor) -> DecoderCache:
        """Returns the cache of new beams, each of which continues a previous beam.

        Args:
            cache: The cache of the previous beams.
            parents: `[batch, beams]` integer, the beam that each new beam continues.
        """
        return self.decoder.reorder(cache, parents)

    def decode(
        self,
        target: tf.Tensor,
        memory: tf.Tensor | None,
        memory_mask: tf.Tensor,
        self_attention_mask: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        cache: DecoderCache | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Computes the logits of the token after each target position.

        Args:
            target: `[batch, target]` integer ids, beginning with the start token.
            memory: `[batch, source, d_model]` float, the result of `encode`. Ignored
                with a cache, which already contains its keys and values.
            memory_mask: `padding_mask(source)`, or another mask of shape `[batch,
                target, source]` or `[batch, heads, target, source]`. Any axis may be 1.
            self_attention_mask: Bool of shape `[batch, target, key]` or `[batch, heads,
                target, key]`. Any axis may be 1. With a cache, the key axis covers the
                cached positions, then those of `target`. Default: the causal mask.
                Ignored by a decoder with SSRUs.
            positions: `[target]` integer, the position of each target token in its
                sequence. Several tokens may share a position, as in beam search
                (SSRUs need a cache for this, see `empty_cache`). Default: consecutive
                positions after the cached ones.
            cache: Cache for incremental decoding: the result of `empty_cache`, or
                `cache` of an earlier result.
            return_attention_scores: Whether to return the attention weights too.
            training: Whether to apply dropout.

        Returns:
            Logits `[batch, target, target_vocab_size]`; with `return_attention_scores`
            or a cache, a `DecodeResult`.
        """
        result = self._decoder_output(
            target,
            memory,
            memory_mask,
            self_attention_mask,
            positions,
            cache,
            return_attention_scores,
            training,
        )
        projection = self.output_projection()
        if not (return_attention_scores or cache is not None):
            return projection.logits(result)
        return DecodeResult(
            projection.logits(result.output), result.scores, result.cache
        )

    def _decoder_output(
        self,
        target: tf.Tensor,
        memory: tf.Tensor | None,
        memory_mask: tf.Tensor,
        self_attention_mask: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        cache: DecoderCache | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Computes the decoder's output before the projection to logits."""
        length = tf.shape(target)[1]
        past = 0 if cache is None else tf.shape(cache.positions)[2]
        if self_attention_mask is None:
            self_attention_mask = causal_mask(past + length)[:, :, past:]
        if positions is None and cache is not None:
            positions = past + tf.range(size_of(target, 1))
        x = self.target_position(self.target_embedding(target), positions=positions)
        x = self.target_dropout(x, training=training)
        return self.decoder(
            x,
            memory,
            self_attention_mask=self_attention_mask,
            cross_attention_mask=memory_mask,
            cache=cache,
            positions=positions,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def output_projection(self) -> OutputProjection:
        """Returns the projection from decoder states to logits.

        All code that computes logits or losses uses this projection.
        """
        if self.output_weights is None:
            return self.target_embedding.output_projection()
        return self.output_weights.output_projection(
            self.target_embedding.matrix() if self.config.tie_output else None
        )

    def target_states(
        self, inputs: dict[str, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """Computes the decoder states that `output_projection` projects to logits.

        Args:
            inputs: The same as in `call`.
            training: Whether to apply dropout.

        Returns:
            `[batch, target, d_model]` in the compute dtype.
        """
        source, target = self._checked(inputs)
        memory = self.encode(source, training=training)
        return self._decoder_output(
            target, memory, padding_mask(source), training=training
        )

    def _checked(self, inputs: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        source = require_shape(inputs["source"], (None, None), self, "source")
        # Without this check, a single source would broadcast to all targets.
        target = require_shape(
            inputs["target"], (size_of(source, 0), None), self, "target"
        )
        return source, target

    def call(
        self,
        inputs: dict[str, tf.Tensor],
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Computes the logits of all target positions in parallel."""
        if not return_attention_scores:
            states = self.target_states(inputs, training=training)
            return self.output_projection().logits(states)
        source, target = self._checked(inputs)
        encoded = self.encode(source, return_attention_scores=True, training=training)
        decoded = self.decode(
            target,
            encoded.output,
            padding_mask(source),
            return_attention_scores=True,
            training=training,
        )
        scores = {
            "encoder": encoded.scores,
            "decoder": [
                layer.self_attention
                for layer in decoded.scores
                if layer.self_attention is not None
            ],
            "cross": [layer.cross_attention for layer in decoded.scores],
        }
        return TransformerResult(decoded.logits, scores)

    def compute_output_shape(self, input_shape: dict[str, Any]) -> Any:
        """Returns the shape of the logits."""
        return (*input_shape["target"], self.target_embedding.vocab_size)

    def export(
        self,
        filepath: str | Path,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the forward pass with Keras.

        To export a complete translation function, use `t2t-export`.

        Args:
            filepath: Directory to write.
            format: See `keras.Model.export`.
            verbose: See `keras.Model.export`.
            input_signature: List with the input specification of `inputs`. Default:
                int32 ids with any batch size and lengths.
            **kwargs: See `keras.Model.export`.
        """
        if input_signature is None:
            ids = {"shape": (None, None), "dtype": "int32"}
            names = ("source", "target")
            input_signature = [{n: keras.InputSpec(**ids, name=n) for n in names}]
        super().export(filepath, format, verbose, input_signature, **kwargs)
