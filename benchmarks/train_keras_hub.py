"""Training steps of keras-hub's Transformer layers with Keras's own training loop."""

import common
import keras
import keras_hub
import tensorflow as tf

sizes = common.training_sizes(__doc__)

if sizes.precision == "bfloat16":
    keras.config.set_dtype_policy("mixed_bfloat16")
keras.utils.set_random_seed(0)
layers = keras_hub.layers
embedding = layers.ReversibleEmbedding(sizes.vocab_size, sizes.d_model)


def embedded(ids: keras.KerasTensor) -> keras.KerasTensor:
    """Embeds ids and their positions."""
    x = embedding(ids) * sizes.d_model**0.5
    x = x + layers.SinePositionEncoding()(x)
    return keras.layers.Dropout(sizes.dropout)(x)


inputs = [keras.Input([None], dtype="int32", name=n) for n in ("source", "target")]
memory = embedded(inputs[0])
for _ in range(sizes.num_layers):
    memory = layers.TransformerEncoder(
        sizes.d_ff, sizes.num_heads, dropout=sizes.dropout
    )(memory)
states = embedded(inputs[1])
for _ in range(sizes.num_layers):
    states = layers.TransformerDecoder(
        sizes.d_ff, sizes.num_heads, dropout=sizes.dropout
    )(states, memory)
model = keras.Model(inputs, embedding(states, reverse=True))
for layer in model._flatten_layers():
    # These layers also apply dropout to attention weights, unlike the other programs.
    if isinstance(layer, keras.layers.MultiHeadAttention):
        layer._dropout = 0.0


def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Cross entropy with label smoothing, which Keras has only for one-hot labels."""
    return keras.losses.categorical_crossentropy(
        tf.one_hot(tf.cast(labels, tf.int32), sizes.vocab_size),
        tf.cast(logits, tf.float32),
        from_logits=True,
        label_smoothing=sizes.label_smoothing,
    )


model.compile(keras.optimizers.Adam(common.LEARNING_RATE), loss, jit_compile=False)
source, target = (
    tf.constant(common.random_ids(sizes.batch, sizes.length, sizes.vocab_size, seed))
    for seed in (0, 1)
)
shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=1)


def step() -> float:
    """Runs a step with `Model.train_on_batch`."""
    logs = model.train_on_batch([source, shifted], target, return_dict=True)
    # Keras reports the mean over all steps; report only the loss of this step.
    model.reset_metrics()
    return float(logs["loss"])


common.report_training(
    step, sizes, version=f"{keras_hub.__version__}, keras {keras.__version__}"
)
