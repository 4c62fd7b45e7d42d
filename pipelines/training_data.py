"""The data that the training stage reads, and what it writes of them."""

import itertools
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.catalog import open_corpus
from t2t_keras.data.examples import Examples, TextExamples
from t2t_keras.data.filters import LengthFilter
from t2t_keras.data.preparation import PreparedData
from t2t_keras.data.streams import is_stream
from t2t_keras.errors import UserError
from t2t_keras.files import write_atomically


def open_examples(data: PreparedData, split: str, from_text: bool = False) -> Examples:
    """Opens a split of prepared data.

    Args:
        data: The prepared directory.
        split: "train", "dev" or "test".
        from_text: Read the corpus that the directory was made of, rather than its
            records, with the same vocabulary and filter.

    Raises:
        UserError: If the corpus no longer is what it was, or it was prepared with BPE
            dropout.
    """
    if not from_text:
        return data.examples(split)
    if data.manifest.get("bpe_dropout"):
        raise UserError(
            f"--read_text divides words in the usual pieces, and {data.data_dir} was "
            "prepared with --bpe_dropout. Train without it."
        )
    arguments = data.manifest["corpus_arguments"]
    for kind in ("sources", "targets", "trees"):
        for path in itertools.chain(*(arguments.get(kind) or {}).values()):
            if is_stream(path):
                raise UserError(
                    f"{path}, which {data.data_dir} was prepared from, is a stream "
                    "and cannot be read again. Train without --read_text."
                )
    length_filter = LengthFilter(**data.manifest["length_filter"])
    corpus = open_corpus(**arguments)
    examples = TextExamples(corpus, split, data.tokenizers, length_filter)
    prepared = data.manifest["splits"][split]
    # The lengths count the end token of each sentence.
    tokens = [int(side) - len(examples) for side in examples.lengths.sum(axis=0)]
    found = dict(
        zip(
            ("pairs", "source_tokens", "target_tokens"),
            (len(examples), *tokens),
            strict=True,
        )
    )
    if found != {name: prepared[name] for name in found}:
        raise UserError(
            f"The text that {data.data_dir} was prepared from has changed: it has "
            f"{found} now. Run t2t-prepare again."
        )
    return examples


def dump_batch(
    examples: Examples,
    order: BatchOrder,
    data: PreparedData,
    path: Path,
    is_chief: bool,
) -> Callable[[int, int], Path]:
    """Returns a function that writes the text of a batch, a pair a line.

    Args:
        examples: The training data.
        order: The order of its batches.
        data: Has the tokenizers.
        path: Where to write; the batch's place is added to the name.
        is_chief: Whether this worker writes; the others only know where it is.
    """

    def dump(epoch: int, number: int) -> Path:
        file = path.with_name(f"{path.name}-epoch-{epoch}-batch-{number}.tsv")
        if not is_chief:
            return file
        indices = order.batches(epoch)[number]
        fetched = (tf.constant(x) for x in examples.fetch(indices))
        source, target = examples.parse(*fetched)
        texts = (
            # Without the end token, which no detokenizer knows.
            tokenizer.detokenize(ids[:, :-1]).numpy().tolist()
            for tokenizer, ids in (
                (data.tokenizers.source, source),
                (data.tokenizers.target, target),
            )
        )
        lines = [b"\t".join(pair) + b"\n" for pair in zip(*texts, strict=True)]
        write_atomically(file, b"".join(lines))
        return file

    return dump
