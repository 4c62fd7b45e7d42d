"""OpenNMT-tf on real text: useful tokens per second of reading or training.

The text is tokenized whenever it is read.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import common
import multi30k
import opennmt
import opennmt_tf_model
import tensorflow as tf

sizes = common.text_sizes(__doc__)


def open_dataset() -> tuple[opennmt.models.Transformer, tf.data.Dataset]:
    """Opens the text and returns a model and the batches of an epoch."""
    model = opennmt_tf_model.base(sizes)
    model.initialize(opennmt_tf_model.text_data(), params={"label_smoothing": 0.1})
    # Like its automatic configuration, except for the batch size.
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
    return model, dataset


def endless(dataset: tf.data.Dataset) -> Iterator[Any]:
    """Returns the batches of consecutive epochs."""
    return itertools.chain.from_iterable(iter(dataset) for _ in itertools.count())


def count(
    features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor]
) -> tuple[float, float]:
    """Returns the number of tokens and of positions of a batch."""
    sides = [
        (features["ids"], features["length"]),
        (labels["ids_out"], labels["length"]),
    ]
    tokens = sum(int(lengths.numpy().sum()) for _, lengths in sides)
    return tokens, sum(ids.shape[0] * ids.shape[1] for ids, _ in sides)


def open_training() -> common.Step:
    """Opens the text, builds a model and returns a function that runs a step."""
    model, dataset = open_dataset()
    optimizer = tf.keras.optimizers.legacy.Adam(common.LEARNING_RATE)
    model.create_variables(optimizer)
    batches = endless(dataset)

    @tf.function(input_signature=dataset.element_spec)
    def train(
        features: dict[str, tf.Tensor], labels: dict[str, tf.Tensor]
    ) -> tf.Tensor:
        return model.train(features, labels, optimizer)

    def step() -> tuple[float, float]:
        features, labels = next(batches)
        float(train(features, labels))
        return count(features, labels)

    return step


def open_reading() -> common.Step:
    """Opens the text and returns a function that reads a batch."""
    batches = endless(open_dataset()[1])
    return lambda: count(*next(batches))


common.report_text(
    open_training if sizes.task == "train" else open_reading,
    sizes,
    version=f"{opennmt.__version__}, tensorflow {tf.__version__}",
)
