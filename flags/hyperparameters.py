"""--preset, and a flag for every value of a preset."""

from typing import Any

from absl import flags

from t2t_keras.flags.presets import PRESETS

FLAGS = flags.FLAGS

PRESET = flags.DEFINE_enum(
    "preset", "tiny", sorted(PRESETS), "Named values that single flags override."
)
# Data.
VOCAB_SIZE = flags.DEFINE_integer("vocab_size", None, "Tokens of each vocabulary.", 8)
SUBWORD = flags.DEFINE_enum(
    "subword", None, ["bpe", "unigram", "wordpiece"], "Kind of vocabulary."
)
# Model.
flags.DEFINE_integer("num_layers", None, "Encoder layers, N.", 1)
flags.DEFINE_integer("num_decoder_layers", None, "Decoder layers [num_layers].", 1)
flags.DEFINE_integer("d_model", None, "Size of every layer's output.", 1)
flags.DEFINE_integer("d_ff", None, "Inner size of the feed-forward networks.", 1)
flags.DEFINE_integer("num_heads", None, "Attention heads, h.", 1)
flags.DEFINE_integer("d_k", None, "Size of a head's keys [d_model / num_heads].", 1)
flags.DEFINE_integer("d_v", None, "Size of a head's values [d_k].", 1)
flags.DEFINE_float("dropout", None, "Share of sub-layer outputs dropped.", 0, 1)
flags.DEFINE_float("attention_dropout", None, "Share of weights dropped.", 0, 1)
flags.DEFINE_float("relu_dropout", None, "Share dropped after the ReLU.", 0, 1)
flags.DEFINE_bool("attention_bias", None, "Biases in attention's projections.")
flags.DEFINE_enum("position", None, ["sinusoidal", "learned"], "Position encoding.")
flags.DEFINE_integer("max_length", None, "Positions that can be learned.", 1)
flags.DEFINE_bool("pre_norm", None, "Normalize before each sub-layer, not after.")
flags.DEFINE_float("norm_epsilon", None, "Epsilon of layer normalization.", 0)
flags.DEFINE_bool("share_embeddings", None, "One matrix for source, target, logits.")
# Training.
flags.DEFINE_float("label_smoothing", None, "Probability spread evenly, below 1.", 0)
flags.DEFINE_float("learning_rate", None, "Multiplies the paper's schedule.", 0)
flags.DEFINE_integer("warmup_steps", None, "Steps of growing learning rate.", 1)
flags.DEFINE_float("clip_norm", None, "Greatest gradient norm [no clipping].", 0)
flags.DEFINE_integer("batch_tokens", None, "Tokens a side in a global batch.", 1)
flags.DEFINE_integer("train_steps", None, "Updates to train for.", 1)
flags.DEFINE_float("checkpoint_minutes", None, "Minutes between checkpoints.", 0)
flags.DEFINE_integer("average_last", None, "Checkpoints that t2t-average takes.", 1)


def hyperparameters() -> dict[str, Any]:
    """Returns the preset's values with the explicitly given flags over them."""
    return {
        name: preset_value if FLAGS[name].value is None else FLAGS[name].value
        for name, preset_value in PRESETS[PRESET.value].items()
    }
