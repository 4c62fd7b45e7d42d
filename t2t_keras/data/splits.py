"""Opens the splits of prepared data, from records or from text."""

import itertools

from t2t_keras.data.corpus_catalog import open_corpus
from t2t_keras.data.examples import Examples, TextExamples
from t2t_keras.data.input_streams import is_stream
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.errors import UserError


def open_examples(data: PreparedData, split: str, from_text: bool = False) -> Examples:
    """Opens a split of prepared data.

    Args:
        data: The data directory.
        split: "train", "dev" or "test".
        from_text: Whether to read the text of the corpus instead of the records, with
            the same vocabulary and filter. Default False.

    Raises:
        UserError: If the records are invalid or, with `from_text`, if the corpus has
            changed, is a stream, or was prepared with weights, tags, filters or
            BPE dropout.
    """
    if not from_text:
        return data.examples(split)
    if data.manifest.get("bpe_dropout"):
        raise UserError(
            f"--read_text segments text without BPE dropout, but {data.data_dir} was "
            "prepared with --bpe_dropout. Train without --read_text."
        )
    if data.manifest.get("filters"):
        raise UserError(
            f"--read_text reads all of the text, but {data.data_dir} was prepared with "
            "--filters. Train without --read_text."
        )
    arguments = data.manifest["corpus_arguments"]
    for name in ("train_weights", "train_tags"):
        if arguments.get(name):
            raise UserError(
                f"--read_text reads each pair once, but {data.data_dir} was prepared "
                f"with --{name}. Train without --read_text."
            )
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
