"""A flag for every value of a preset that shapes the model or its training."""

from absl import flags

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
flags.DEFINE_float(
    "r_drop",
    None,
    "R-Drop: weight of what two predictions differ by [one prediction].",
    0,
)
flags.DEFINE_integer("batch_tokens", None, "Tokens a side in a global batch.", 1)
flags.DEFINE_integer("train_steps", None, "Updates to train for.", 1)
flags.DEFINE_float(
    "cooldown",
    None,
    "Share of the training, at its end, over which the learning rate falls linearly to "
    "zero; 0 for no cooldown.",
    0,
)
flags.DEFINE_float("checkpoint_minutes", None, "Minutes between checkpoints.", 0)
flags.DEFINE_integer("average_last", None, "Checkpoints that t2t-average takes.", 1)
