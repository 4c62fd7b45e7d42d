"""The composed dataset: from examples to the batches that training consumes."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from t2t_keras.data.batching import Batching
from t2t_keras.data.examples import Examples
from t2t_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class DataPosition:
    """Where in the endless sequence of training batches a run stands.

    Attributes:
        epoch: Number of complete passes over the data.
        batch: Number of global batches of the present pass that are done.
    """

    epoch: int = 0
    batch: int = 0


def training_dataset(
    examples: Examples,
    batching: Batching,
    start: DataPosition = DataPosition(),
    parts: int = 1,
    own_parts: Sequence[int] | None = None,
    epochs: int | None = None,
    shuffle: bool = True,
) -> tf.data.Dataset:
    """Streams the parts of one global batch after another.

    Args:
        examples: The sentence pairs.
        batching: How to form global batches.
        start: The first batch to yield.
        parts: Into how many parts each global batch is divided.
        own_parts: Which of them to yield. Default all.
        epochs: When to stop. Default never.
        shuffle: Whether the order is random.

    Raises:
        UserError: If there are no examples.

    Returns:
        A dataset of dicts, an element a part:
        "source": `[rows, source_length]` int32, each row ended and padded;
        "target": `[rows, target_length]` int32, likewise, without start token;
        "batch_target_tokens": int64, real target tokens of the whole global batch;
        "epoch", "batch", "batches": int64, where the global batch stands in the
        order, and how many the epoch has.
    """
    lengths = examples.lengths
    if not len(lengths):
        raise UserError("There are no examples to make batches of.")
    own_parts = range(parts) if own_parts is None else own_parts

    def elements() -> Iterator[tuple[Any, ...]]:
        epoch, first = start.epoch, start.batch
        while epochs is None or epoch < epochs:
            batches = batching.global_batches(lengths, epoch, shuffle)
            for number in range(first, len(batches)):
                batch = batches[number]
                place = (lengths[batch, 1].sum(), epoch, number, len(batches))
                for i, part in enumerate(batching.parts(batch, lengths, parts)):
                    if i in own_parts:
                        shape = (part.rows, part.source_length, part.target_length)
                        yield examples.fetch(part.indices), shape, place
            epoch, first = epoch + 1, 0

    def pad(fetched: Any, shape: tf.Tensor, place: tf.Tensor) -> dict[str, tf.Tensor]:
        source, target = examples.parse(*fetched)
        return {
            "source": source.to_tensor(shape=[shape[0], shape[1]]),
            "target": target.to_tensor(shape=[shape[0], shape[2]]),
            "batch_target_tokens": place[0],
            "epoch": place[1],
            "batch": place[2],
            "batches": place[3],
        }

    def endless(dataset: tf.data.Dataset) -> tf.data.Dataset:
        # Where a dataset might end, tf.distribute asks all workers before each step.
        infinite = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
        return dataset.apply(infinite) if epochs is None else dataset

    dataset = tf.data.Dataset.from_generator(
        elements,
        output_signature=(
            examples.signature,
            tf.TensorSpec([3], tf.int64),
            tf.TensorSpec([4], tf.int64),
        ),
    )
    dataset = dataset.map(pad, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return endless(dataset).prefetch(8)
