"""Trains a toy model on random pairs, for tests of training."""

import functools

import numpy as np
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.data.batch_order import START, BatchOrder
from t2t_keras.data.batching import Batching
from t2t_keras.data.dataset import training_dataset
from t2t_keras.data.examples import Examples, append_eos
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.trainer import Trainer


class RandomExamples(Examples):
    """Pairs of random token ids with ragged lengths."""

    def __init__(self, number=60, vocab=20, seed=0):
        rng = np.random.default_rng(seed)
        self.pairs = [
            [rng.integers(4, vocab, rng.integers(1, 9)).tolist() for _ in range(2)]
            for _ in range(number)
        ]
        super().__init__(np.array([[len(s), len(t)] for s, t in self.pairs]))

    @property
    def signature(self):
        spec = tf.RaggedTensorSpec([None, None], tf.int32)
        return spec, spec

    def fetch(self, indices):
        return tuple(
            tf.ragged.constant(
                [self.pairs[i][side] for i in indices], tf.int32, ragged_rank=1
            )
            for side in range(2)
        )

    def parse(self, *fetched):
        return tuple(append_eos(side) for side in fetched)


def trainer_of(
    dtype="float32", dropout=0.0, strategy=None, learning_rate=0.01, **arguments
):
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = Transformer(
            source_vocab_size=20,
            num_layers=1,
            d_model=16,
            d_ff=32,
            num_heads=2,
            dropout=dropout,
            dtype=dtype,
        )
        return Trainer(model, Adam(learning_rate), strategy=strategy, **arguments)


def batches(trainer, batching=None, start=START, examples=None):
    """Returns an iterator over the batches of random pairs for this trainer."""
    examples = examples or RandomExamples()
    batching = batching or Batching(64)
    order = BatchOrder(batching, examples.lengths)
    dataset = functools.partial(training_dataset, examples, order, start)
    return iter(trainer.distribute(dataset))


def run(trainer, steps, **arguments):
    """Runs training steps and returns their logs."""
    iterator = batches(trainer, **arguments)
    return [trainer.train_step(iterator)[0] for _ in range(steps)]
