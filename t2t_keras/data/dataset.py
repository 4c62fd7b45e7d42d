"""The training dataset: a stream of padded batches."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.data.batch_order import START, BatchOrder, DataPosition
from t2t_keras.data.examples import Examples
from t2t_keras.errors import UserError


@contextlib.contextmanager
def original_errors(*examples: Examples | None) -> Iterator[None]:
    """Replaces TensorFlow's error for a failed dataset by the error that caused it.

    Args:
        *examples: The examples of the datasets that the block reads.

    Raises:
        UserError: If reading an example raised it.
    """
    try:
        yield
    except tf.errors.OpError as error:
        for one in examples:
            if one is not None and one.failure:
                raise one.failure from error
        raise


def training_dataset(
    examples: Examples,
    order: BatchOrder,
    start: DataPosition = START,
    parts: int = 1,
    own_parts: Sequence[int] | None = None,
    epochs: int | None = None,
) -> tf.data.Dataset:
    """Streams the parts of consecutive global batches.

    Args:
        examples: The sentence pairs.
        order: The order of the global batches.
        start: Position of the first batch. Default the start of epoch 0.
        parts: Number of parts that each global batch is divided into. Default 1.
        own_parts: Indices of the parts to yield. Default all.
        epochs: Epoch to stop before. Default None (repeat forever).

    Raises:
        UserError: If there are no examples.

    Returns:
        A dataset of dicts, one element per part:
        "source": `[rows, source_length]` int32, each row ends in EOS and is padded;
        "target": `[rows, target_length]` int32, the same, without start token;
        "batch_target_tokens": int64, number of target tokens in the whole global
        batch, without padding.
    """
    if not len(examples):
        raise UserError("The dataset has no examples.")
    own_parts = range(parts) if own_parts is None else own_parts
    lengths, batching = order.lengths, order.batching

    def fetch(indices: np.ndarray) -> tuple[np.ndarray, ...]:
        try:
            return examples.fetch(indices)
        except UserError as error:
            examples.failure = error
            raise

    def elements() -> Iterator[tuple[Any, ...]]:
        epoch, first = start.epoch, start.batch
        while epochs is None or epoch < epochs:
            for batch in order.batches(epoch)[first:]:
                target_tokens = lengths[batch, 1].sum()
                for i, part in enumerate(batching.parts(batch, lengths, parts)):
                    if i in own_parts:
                        shape = (part.rows, part.source_length, part.target_length)
                        yield fetch(part.indices), shape, target_tokens
            epoch, first = epoch + 1, 0

    def pad(
        fetched: Any, shape: tf.Tensor, target_tokens: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        source, target = examples.parse(*fetched)
        return {
            "source": source.to_tensor(shape=[shape[0], shape[1]]),
            "target": target.to_tensor(shape=[shape[0], shape[2]]),
            "batch_target_tokens": target_tokens,
        }

    def endless(dataset: tf.data.Dataset) -> tf.data.Dataset:
        # If a dataset may end, tf.distribute synchronizes all workers before each step.
        infinite = tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)
        return dataset.apply(infinite) if epochs is None else dataset

    dataset = tf.data.Dataset.from_generator(
        elements,
        output_signature=(
            examples.signature,
            tf.TensorSpec([3], tf.int64),
            tf.TensorSpec([], tf.int64),
        ),
    )
    dataset = dataset.map(pad, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return endless(dataset).prefetch(8)
