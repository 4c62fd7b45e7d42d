"""Writes the text of training batches for inspection."""

from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.examples import Examples
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.files import write_atomically


def dump_batch(
    examples: Examples,
    order: BatchOrder,
    tokenizers: TokenizerPair,
    path: Path,
    is_chief: bool,
) -> Callable[[int, int], Path]:
    """Returns a function that writes the text of a batch, one pair per line.

    Args:
        examples: The training data.
        order: The order of the training batches.
        tokenizers: The tokenizers of the data.
        path: Prefix of the file name. Epoch and number of the batch are appended.
        is_chief: Whether this worker writes the file. Other workers only return its
            path.
    """

    def dump(epoch: int, number: int) -> Path:
        file = path.with_name(f"{path.name}-epoch-{epoch}-batch-{number}.tsv")
        if not is_chief:
            return file
        indices = order.batches(epoch)[number]
        fetched = (tf.constant(x) for x in examples.fetch(indices))
        source, target = examples.parse(*fetched)
        texts = (
            # Remove EOS, which detokenizers do not accept.
            tokenizer.detokenize(ids[:, :-1]).numpy().tolist()
            for tokenizer, ids in (
                (tokenizers.source, source),
                (tokenizers.target, target),
            )
        )
        lines = [b"\t".join(pair) + b"\n" for pair in zip(*texts, strict=True)]
        write_atomically(file, b"".join(lines))
        return file

    return dump
