"""Training steps of OpenNMT-tf's Transformer with `Model.train`."""

import common
import opennmt
import opennmt_tf_model
import tensorflow as tf

sizes = common.training_sizes(__doc__)

model = opennmt_tf_model.make(sizes, label_smoothing=sizes.label_smoothing)
optimizer = tf.keras.optimizers.legacy.Adam(common.LEARNING_RATE)
model.create_variables(optimizer)
source, target = (
    tf.constant(
        common.random_ids(sizes.batch, sizes.length, sizes.vocab_size, seed), tf.int64
    )
    for seed in (0, 1)
)
lengths = tf.fill([sizes.batch], sizes.length)
features = {"ids": source, "length": lengths}
labels = {
    "ids": tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=1),
    "ids_out": target,
    "length": lengths,
}


@tf.function(reduce_retracing=True)
def train(features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor]) -> tf.Tensor:
    """Runs a step."""
    return model.train(features, labels, optimizer)


common.report_training(
    lambda: float(train(features, labels)),
    sizes,
    version=f"{opennmt.__version__}, tensorflow {tf.__version__}",
)
