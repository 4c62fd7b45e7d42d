"""t2t_keras on real text: useful tokens per second of reading or training.

--source=text tokenizes text whenever it is read, --source=records reads the records of
t2t-prepare. --task=train runs training steps, --task=read only reads batches.
"""

from collections.abc import Callable

import common
import multi30k
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.batching import Batching
from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.dataset import training_dataset
from t2t_keras.data.examples import Examples, TextExamples
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.special_tokens import PAD_ID
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.trainer import Trainer

sizes = common.text_sizes(__doc__)
options = tf.data.Options()
if sizes.threads:
    options.threading.private_threadpool_size = sizes.threads


def open_examples() -> Examples:
    """Opens the training pairs."""
    if sizes.source == "records":
        return PreparedData(multi30k.DATA).examples("train")
    english, german = ({"train": [str(path)]} for path in multi30k.TRAIN)
    tokenizers = TokenizerPair.load(multi30k.DATA / "tokenizer")
    corpus = TextCorpus("en", "de", english, german)
    return TextExamples(corpus, "train", tokenizers, LengthFilter())


def open_dataset() -> Callable[..., tf.data.Dataset]:
    """Opens the training pairs; returns what makes their batches."""
    examples = open_examples()
    order = BatchOrder(Batching(sizes.batch_tokens), examples.lengths)

    def dataset(**of_worker: int) -> tf.data.Dataset:
        batches = training_dataset(examples, order, **of_worker)
        return batches.with_options(options)

    return dataset


def open_training() -> common.Step:
    """Opens the text, builds a model and returns a function that runs a step."""
    model = Transformer(
        source_vocab_size=sizes.vocab_size,
        **common.model_arguments(sizes),
        dropout=sizes.dropout,
        dtype="float32" if sizes.precision == "float32" else "mixed_bfloat16",
    )
    trainer = Trainer(model, Adam(common.LEARNING_RATE))
    parts = iter(trainer.distribute(open_dataset()))

    def step() -> tuple[float, float]:
        logs, _ = trainer.train_step(parts)
        return logs["tokens"], logs["tokens"] / logs["non_padding"]

    return step


def open_reading() -> common.Step:
    """Opens the text and returns a function that reads a batch."""
    batches = iter(open_dataset()())

    def step() -> tuple[float, float]:
        batch = next(batches)
        sides = [batch[side].numpy() for side in ("source", "target")]
        return sum(int((x != PAD_ID).sum()) for x in sides), sum(x.size for x in sides)

    return step


open_steps = open_training if sizes.task == "train" else open_reading
common.report_text(open_steps, sizes, version=tf.__version__)
