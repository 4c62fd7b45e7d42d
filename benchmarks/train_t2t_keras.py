"""Training steps of t2t_keras, the same as in t2t-train."""

import itertools

import common
import numpy as np
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.training.objective import Objective
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.strategy import make_strategy
from t2t_keras.training.trainer import Trainer

parser = common.training_parser(__doc__)
parser.add_argument("--devices", type=int, default=1, help="replicas; default 1")
sizes = parser.parse_args()

strategy = make_strategy(devices=sizes.devices)
with strategy.scope():
    model = Transformer(
        source_vocab_size=sizes.vocab_size,
        **common.model_arguments(sizes),
        dropout=sizes.dropout,
        dtype="float32" if sizes.precision == "float32" else "mixed_bfloat16",
    )
    trainer = Trainer(
        model,
        Adam(common.LEARNING_RATE),
        Objective(sizes.label_smoothing),
        strategy=strategy,
    )
source, target = (
    np.array(common.random_ids(sizes.batch, sizes.length, sizes.vocab_size, seed))
    for seed in (0, 1)
)
number = tf.TensorSpec([], tf.int64)
# Remove the static shapes, since the batches of t2t-train have varying shapes.
ids = tf.TensorSpec([None, None], tf.int32)
signature = {"source": ids, "target": ids, "batch_target_tokens": number}
shares = [
    {"source": a, "target": b, "batch_target_tokens": target.size}
    for a, b in zip(
        np.array_split(source, sizes.devices),
        np.array_split(target, sizes.devices),
        strict=True,
    )
]


def dataset(**_: object) -> tf.data.Dataset:
    """Repeats one batch, so that reading takes no time."""
    return tf.data.Dataset.from_generator(
        lambda: itertools.cycle(shares), output_signature=signature
    )


parts = iter(trainer.distribute(dataset))
common.report_training(
    lambda: trainer.train_step(parts)[0]["loss"], sizes, version=tf.__version__
)
