"""Training steps of tensorflow/models' Seq2SeqTransformer, the same as in its task."""

import common
import tensorflow as tf
import tf_keras
from official.legacy.transformer.metrics import transformer_loss
from official.nlp.modeling import models

sizes = common.training_sizes(__doc__)

if sizes.precision == "bfloat16":
    tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
layer_arguments = {
    "num_layers": sizes.num_layers,
    "num_attention_heads": sizes.num_heads,
    "intermediate_size": sizes.d_ff,
    "dropout_rate": sizes.dropout,
}
model = models.Seq2SeqTransformer(
    vocab_size=sizes.vocab_size,
    embedding_width=sizes.d_model,
    dropout_rate=sizes.dropout,
    encoder_layer=models.TransformerEncoder(**layer_arguments),
    decoder_layer=models.TransformerDecoder(**layer_arguments),
)
# Arguments of its optimizer factory.
optimizer = tf_keras.optimizers.legacy.Adam(common.LEARNING_RATE)
source, target = (
    tf.constant(common.random_ids(sizes.batch, sizes.length, sizes.vocab_size, seed))
    for seed in (0, 1)
)


@tf.function(reduce_retracing=True)
def train(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Runs a step."""
    with tf.GradientTape() as tape:
        logits = model({"inputs": source, "targets": target}, training=True)
        loss = transformer_loss(logits, target, sizes.label_smoothing, sizes.vocab_size)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


common.report_training(
    lambda: float(train(source, target)),
    sizes,
    version=f"tf-models-official 2.20.0, tensorflow {tf.__version__}",
)
