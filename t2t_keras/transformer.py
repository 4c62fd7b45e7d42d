"""The Transformer (Vaswani et al., 2017): decode(encode(source))."""

from pathlib import Path
from typing import Any

from t2t_keras.keras_backend import require_tensorflow

require_tensorflow()

import keras
import tensorflow as tf

from t2t_keras.config.transformer_config import TransformerConfig
from t2t_keras.layers.configured import Configured
from t2t_keras.layers.decoder import Decoder, LayerCache
from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.embedding import SharedEmbedding
from t2t_keras.layers.encoder import Encoder
from t2t_keras.layers.masks import causal_mask, padding_mask
from t2t_keras.layers.output_projection import OutputProjection
from t2t_keras.layers.position import POSITIONAL_ENCODINGS
from t2t_keras.layers.seeds import child_seed
from t2t_keras.layers.symbolic import TracedOutputs


@keras.saving.register_keras_serializable("t2t_keras")
class Transformer(Configured, TracedOutputs, keras.Model):
    """The encoder-decoder model of "Attention Is All You Need" (Figure 1).

    Weights exist from construction on.

    Args:
        config: The configuration. Default: the paper's base model, which needs its
            vocabulary sizes.
        **kwargs: Single fields of the configuration (`Configured`), and Keras's `name`
            and `dtype` (such as "mixed_bfloat16").

    Call arguments:
        inputs: Dict of "source" and "target", `[batch, source]` and
            `[batch, target]` integer ids, 0 for padding. The target begins with the
            start token: position t of the output predicts position t + 1 of it.
        return_attention_scores: Also return the attention weights.
        training: Whether to drop.

    Returns:
        Logits `[batch, target, target_vocab_size]` in the compute dtype; with
        `return_attention_scores` also a dict of "encoder", "decoder" and "cross":
        lists of one `[batch, heads, query, key]` tensor a layer.

    Raises:
        UserError: If a value is not allowed, or there is no vocabulary size.
    """

    built: bool

    def __init__(self, config: TransformerConfig | None = None, **kwargs: Any) -> None:
        # A checkpoint names arrays after variables, whose paths begin with this.
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
        """Creates all weights; the sizes are known without any input."""
        if self.built:
            return
        ids, shape = (None, None), (None, None, self.config.d_model)
        self.target_embedding.build(ids)
        if self.source_embedding is not self.target_embedding:
            self.source_embedding.build(ids)
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
        """Turns source tokens into the memory that the decoder attends to.

        Args:
            source: `[batch, source]` integer ids, 0 for padding.
            return_attention_scores: Also return each layer's attention weights.
            training: Whether to drop.

        Returns:
            `[batch, source, d_model]`; where asked for, then a list of
            `[batch, heads, source, source]`.
        """
        x = self.source_position(self.source_embedding(source))
        x = self.source_dropout(x, training=training)
        return self.encoder(
            x,
            attention_mask=padding_mask(source),
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def empty_cache(self, memory: tf.Tensor) -> list[LayerCache]:
        """Returns the decoder's cache before the first step.

        Args:
            memory: `[batch, source, d_model]`, what `encode` returned.
        """
        return self.decoder.empty_cache(memory)

    def decode(
        self,
        target: tf.Tensor,
        memory: tf.Tensor | None,
        memory_mask: tf.Tensor,
        self_attention_mask: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        cache: list[LayerCache] | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Scores the token that follows each target position.

        Args:
            target: `[batch, target]` integer ids, the start token first.
            memory: `[batch, source, d_model]`, what `encode` returned; unused where
                a cache is given.
            memory_mask: `padding_mask(source)`, or any other mask of shape `[batch,
                target, source]` or `[batch, heads, target, source]`. Any axis may be 1.
            self_attention_mask: Bool of shape `[batch, target, key]` or `[batch, heads,
                target, key]`. Any axis may be 1. Default: the causal mask. With a
                cache, the keys are the cached positions and then these.
            positions: `[target]` integer. Default 0 .. target - 1.
            cache: What `empty_cache` or an earlier call returned.
            return_attention_scores: Also return each layer's attention weights.
            training: Whether to drop.

        Returns:
            Logits `[batch, target, target_vocab_size]`; where asked for, then a list
            of one pair (self-attention, attention to the memory) a layer; where a
            cache was given, then the cache with these positions appended.
        """
        states, *rest = self._target_states(
            target,
            memory,
            memory_mask,
            self_attention_mask,
            positions,
            cache,
            return_attention_scores,
            training,
        )
        logits = self.output_projection().logits(states)
        return (logits, *rest) if rest else logits

    def _target_states(
        self,
        target: tf.Tensor,
        memory: tf.Tensor | None,
        memory_mask: tf.Tensor,
        self_attention_mask: tf.Tensor | None = None,
        positions: tf.Tensor | None = None,
        cache: list[LayerCache] | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> tuple[Any, ...]:
        if self_attention_mask is None:
            self_attention_mask = causal_mask(tf.shape(target)[1])
        x = self.target_position(self.target_embedding(target), positions=positions)
        x = self.target_dropout(x, training=training)
        result = self.decoder(
            x,
            memory,
            self_attention_mask=self_attention_mask,
            cross_attention_mask=memory_mask,
            cache=cache,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        return result if isinstance(result, tuple) else (result,)

    def output_projection(self) -> OutputProjection:
        """Returns the map from decoder states to logits.

        Everything that needs logits, or a loss of them, takes it from here.
        """
        return self.target_embedding.output_projection()

    def target_states(
        self, inputs: dict[str, tf.Tensor], training: bool | None = None
    ) -> tf.Tensor:
        """Returns what `output_projection` turns into the logits of `call`.

        Args:
            inputs: As of `call`.
            training: Whether to drop.

        Returns:
            `[batch, target, d_model]` in the compute dtype.
        """
        source = inputs["source"]
        memory = self.encode(source, training=training)
        return self._target_states(
            inputs["target"], memory, padding_mask(source), training=training
        )[0]

    def call(
        self,
        inputs: dict[str, tf.Tensor],
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Scores every target position at once."""
        if not return_attention_scores:
            states = self.target_states(inputs, training=training)
            return self.output_projection().logits(states)
        source = inputs["source"]
        memory, encoder_scores = self.encode(
            source, return_attention_scores=True, training=training
        )
        logits, decoder_scores = self.decode(
            inputs["target"],
            memory,
            padding_mask(source),
            return_attention_scores=True,
            training=training,
        )
        return logits, {
            "encoder": encoder_scores,
            "decoder": [scores for scores, _ in decoder_scores],
            "cross": [scores for _, scores in decoder_scores],
        }

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
        """Exports the forward pass with Keras; `t2t-export` exports translation.

        Args:
            filepath: Directory to write.
            format: See `keras.Model.export`.
            verbose: See `keras.Model.export`.
            input_signature: List with the specs of `inputs`. Default: int32 ids of any
                batch size and lengths.
            **kwargs: See `keras.Model.export`.
        """
        if input_signature is None:
            ids = {"shape": (None, None), "dtype": "int32"}
            names = ("source", "target")
            input_signature = [{n: keras.InputSpec(**ids, name=n) for n in names}]
        super().export(filepath, format, verbose, input_signature, **kwargs)
