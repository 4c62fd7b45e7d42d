"""The composed dataset: from a corpus to the batches that training consumes."""

import dataclasses
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.data.batching import Batching
from t2t_keras.data.corpora import SPLITS, Corpus
from t2t_keras.data.examples import Examples, tokenize_pairs
from t2t_keras.data.filters import LengthFilter
from t2t_keras.data.records import RecordExamples, write_records
from t2t_keras.data.tokenizer import TokenizerPair
from t2t_keras.files import write_atomically

MANIFEST = "manifest.json"
TOKENIZER_DIR = "tokenizer"
_PAIRS_PER_SHARD = 250_000
_REPORT_SECONDS = 5
_VERSIONED = ("tensorflow", "tensorflow-text", "sentencepiece", "t2t-keras")


def text_path(directory: str | Path, split: str, side: str) -> Path:
    """Returns where a directory keeps the plain text of a held-back split.

    Args:
        directory: A prepared directory or a model directory.
        split: "dev" or "test".
        side: "source" or "target".
    """
    return Path(directory) / f"{split}.{side}.txt"


def prepare(
    corpus: Corpus,
    data_dir: str | Path,
    subword: str = "bpe",
    vocab_size: int = 37_000,
    share_vocabulary: bool = True,
    tokenizers: TokenizerPair | None = None,
    length_filter: LengthFilter | None = None,
    corpus_arguments: dict[str, Any] | None = None,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Learns the vocabulary of a corpus and writes its token ids.

    The directory appears whole, or, if anything fails, not at all. Of dev and test
    the plain text is kept too, every pair of it, for evaluation by decoding.

    Args:
        corpus: Where the sentences come from.
        data_dir: The directory to make.
        subword: A key of `TOKENIZERS`. Default "bpe".
        vocab_size: Number of tokens of each vocabulary. Default 37,000.
        share_vocabulary: One vocabulary for both sides. Default True.
        tokenizers: Use these rather than learn a vocabulary.
        length_filter: Which pairs to keep. Default `LengthFilter()`.
        corpus_arguments: How to open the corpus again, for the manifest.
        report: Receives a line of text at every milestone.

    Returns:
        The manifest, as written to `manifest.json`.

    Raises:
        ValueError: If `data_dir` exists already, or the corpus is faulty.
    """
    data_dir = Path(data_dir)
    if data_dir.exists() and any(data_dir.iterdir()):
        raise ValueError(
            f"{data_dir} is not empty. Choose another directory, or remove it first."
        )
    length_filter = length_filter or LengthFilter()
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    work_dir = Path(tempfile.mkdtemp(prefix=f".{data_dir.name}.", dir=data_dir.parent))
    work_dir.chmod(0o755)
    try:
        report(f"Reading the corpus {corpus.name} ...")
        available = corpus.splits()
        if tokenizers is None:
            report(f"Learning a vocabulary of {vocab_size} ({subword}) ...")
            tokenizers = TokenizerPair.train(
                lambda: corpus.read("train"), subword, vocab_size, share_vocabulary
            )
        tokenizers.save(work_dir / TOKENIZER_DIR)
        splits = {
            split: _prepare_split(
                corpus, split, work_dir, tokenizers, length_filter, report
            )
            for split in SPLITS
            if split in available
        }
        if not splits["train"]["pairs"]:
            raise ValueError(
                f"No training pair of {corpus.name} is left after filtering: "
                f"{splits['train']['removed']}"
            )
        manifest = {
            "corpus": corpus.name,
            "corpus_arguments": corpus_arguments or {},
            "source_lang": corpus.source_lang,
            "target_lang": corpus.target_lang,
            "subword": tokenizers.source.subword,
            "source_vocab_size": tokenizers.source.vocab_size,
            "target_vocab_size": tokenizers.target.vocab_size,
            "shared_vocabulary": tokenizers.shared,
            "vocabulary_fingerprint": tokenizers.fingerprint,
            "length_filter": dataclasses.asdict(length_filter),
            "splits": splits,
            "versions": {name: metadata.version(name) for name in _VERSIONED},
        }
        write_atomically(
            work_dir / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n"
        )
        if data_dir.exists():
            data_dir.rmdir()
        work_dir.rename(data_dir)
    except BaseException:
        shutil.rmtree(work_dir, ignore_errors=True)
        raise
    return manifest


def _prepare_split(
    corpus: Corpus,
    split: str,
    directory: Path,
    tokenizers: TokenizerPair,
    length_filter: LengthFilter,
    report: Callable[[str], None],
) -> dict[str, Any]:
    split_filter = dataclasses.replace(length_filter)

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        kept, reported = 0, time.monotonic()
        for chunk in tokenize_pairs(texts(), tokenizers, split_filter):
            yield from chunk.id_pairs()
            kept += len(chunk.source_text)
            if time.monotonic() - reported > _REPORT_SECONDS:
                report(f"{split}: kept {kept:,} pairs so far")
                reported = time.monotonic()

    def texts() -> Iterator[tuple[str, str]]:
        if split == "train":
            yield from corpus.read(split)
            return
        with (
            text_path(directory, split, "source").open("wb") as source_file,
            text_path(directory, split, "target").open("wb") as target_file,
        ):
            for source, target in corpus.read(split):
                source_file.write(source.encode("utf-8") + b"\n")
                target_file.write(target.encode("utf-8") + b"\n")
                yield source, target

    shards = 1
    if split == "train":
        size = sum(1 for _ in corpus.read(split))
        shards = max(1, -(-size // _PAIRS_PER_SHARD))
    kept, source_tokens, target_tokens = write_records(
        directory, split, shards, pairs()
    )
    removed = split_filter.removed
    causes = ", ".join(f"{count:,} {cause}" for cause, count in removed.items())
    report(
        f"{split}: kept {kept:,} pairs ({source_tokens:,} source and "
        f"{target_tokens:,} target tokens); removed {causes}"
    )
    return {
        "pairs": kept,
        "source_tokens": source_tokens,
        "target_tokens": target_tokens,
        "removed": removed,
        "shards": shards,
    }


class PreparedData:
    """A directory that `prepare` made.

    Args:
        data_dir: The directory.

    Attributes:
        manifest: What `prepare` returned.
        tokenizers: The tokenizers of both sides.

    Raises:
        ValueError: If the directory was not made by `prepare`, or its vocabulary is
            not the one that its records were written with.
    """

    def __init__(self, data_dir: str | Path) -> None:
        self.data_dir = Path(data_dir)
        path = self.data_dir / MANIFEST
        if not path.is_file():
            raise ValueError(
                f"{self.data_dir} holds no prepared data ({MANIFEST}). Run t2t-prepare "
                "first."
            )
        self.manifest = json.loads(path.read_text())
        self.tokenizers = TokenizerPair.load(self.data_dir / TOKENIZER_DIR)
        expected = self.manifest["vocabulary_fingerprint"]
        if self.tokenizers.fingerprint != expected:
            raise ValueError(
                f"{self.data_dir} was prepared with another vocabulary: its records "
                f"have {expected}, its tokenizer is {self.tokenizers.fingerprint}. Run "
                "t2t-prepare again."
            )

    def examples(self, split: str) -> RecordExamples:
        """Opens the records of a split."""
        return RecordExamples(self.data_dir, split)


@dataclasses.dataclass(frozen=True)
class Position:
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
    start: Position = Position(),
    parts: int = 1,
    own_parts: range | None = None,
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

    Returns:
        A dataset of dicts, an element a part:
        "source": `[rows, source_length]` int32, each row ended and padded;
        "target": `[rows, target_length]` int32, likewise, without start token;
        "batch_target_tokens": int64, real target tokens of the whole global batch;
        "epoch", "batch", "batches": int64, where the global batch stands in the
        order, and how many the epoch has.
    """
    lengths = examples.lengths
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

    dataset = tf.data.Dataset.from_generator(
        elements,
        output_signature=(
            examples.signature,
            tf.TensorSpec([3], tf.int64),
            tf.TensorSpec([4], tf.int64),
        ),
    )
    return dataset.map(
        pad, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    ).prefetch(8)


def teacher_forcing(target: tf.Tensor) -> tf.Tensor:
    """Shifts the target right behind a start token: the decoder's input.

    Args:
        target: `[batch, target]` integer ids.

    Returns:
        The same shape and dtype.
    """
    from t2t_keras.tokens import BOS_ID

    return tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS_ID)
