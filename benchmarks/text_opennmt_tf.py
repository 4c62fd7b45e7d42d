"""Real text to batches, or on to losses: useful tokens a second of OpenNMT-tf.

It tokenizes anew whenever it reads.
"""

import itertools

import common
import multi30k
import opennmt
import opennmt_tf_model
import tensorflow as tf

sizes = common.text_sizes(__doc__)
model = opennmt_tf_model.base(sizes)
model.initialize(opennmt_tf_model.text_data(), params={"label_smoothing": 0.1})
# As its automatic configuration has it, but for the size of the batch.
dataset = model.examples_inputter.make_training_dataset(
    *map(str, multi30k.TRAIN),
    batch_size=sizes.batch_tokens,
    batch_type="tokens",
    batch_size_multiple=1,
    shuffle_buffer_size=500_000,
    length_bucket_width=1,
    maximum_features_length=100,
    maximum_labels_length=100,
    num_threads=sizes.threads or 4,
)
batches = itertools.chain.from_iterable(iter(dataset) for _ in itertools.count())


def count(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor]
) -> tuple[float, float]:
    """Returns the tokens and positions of a batch."""
    sides = [
        (features["ids"], features["length"]),
        (labels["ids_out"], labels["length"]),
    ]
    tokens = sum(int(lengths.numpy().sum()) for _, lengths in sides)
    return tokens, sum(ids.shape[0] * ids.shape[1] for ids, _ in sides)


if sizes.task == "train":
    optimizer = tf.keras.optimizers.legacy.Adam(common.LEARNING_RATE)
    model.create_variables(optimizer)

    @tf.function(input_signature=dataset.element_spec)
    def train(
        features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor]
    ) -> tf.Tensor:
        """Takes a step."""
        return model.train(features, labels, optimizer)

    def step() -> tuple[float, float]:
        """Takes a step; returns its tokens and its positions, padding included."""
        features, labels = next(batches)
        float(train(features, labels))
        return count(features, labels)
else:

    def step() -> tuple[float, float]:
        """Reads a batch; returns likewise."""
        return count(*next(batches))


common.report_text(
    step, sizes, version=f"{opennmt.__version__}, tensorflow {tf.__version__}"
)
