"""Trains in a separate process, for tests/training/strategy_test.py.

TensorFlow keeps the devices and groups of a strategy until the process ends.
"""

import dataclasses
import json
import sys

import numpy as np
import tensorflow as tf
from toy import RandomExamples, batches, trainer_of

from t2t_keras.data.batching import Batching
from t2t_keras.training.strategy import make_strategy

STEPS = 20
# Ragged lengths. Some batches have fewer pairs than there are replicas.
EXAMPLES = RandomExamples(61)
BATCHING = Batching(64, 7)


def train(path, dtype="float64", dropout=0.0, accumulate=1, jit=False, **strategy):
    """Trains, validates and saves weights. Returns the logs and the dev metrics."""
    trainer = trainer_of(
        dtype,
        dropout,
        make_strategy(**strategy),
        accumulate=accumulate,
        jit=jit,
        clip_norm=1.0,
    )
    batching = dataclasses.replace(BATCHING, pad_to_boundary=jit)
    parts = batches(trainer, batching, examples=EXAMPLES)
    logs = [trainer.train_step(parts)[0] for _ in range(STEPS)]
    number = len(BATCHING.global_batches(EXAMPLES.lengths, 0))
    dev = trainer.evaluate(batches(trainer, BATCHING, examples=EXAMPLES), number)
    np.savez(path, *[v.numpy() for v in trainer.model.trainable_variables])
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    return {"logs": logs, "dev": dev, "threads": threads}


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    print(json.dumps(train(**json.loads(sys.argv[1]))))
