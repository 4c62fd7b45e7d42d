"""A prepared directory: vocabulary, token ids and held-back text of a corpus."""

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

from t2t_keras.data.bpe_dropout import BpeDropout, BpeDropoutSampler, check_merges
from t2t_keras.data.corpora import SPLITS, Corpus
from t2t_keras.data.examples import tokenize_pairs
from t2t_keras.data.filters import LengthFilter
from t2t_keras.data.records import RecordExamples, write_records
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.files import write_atomically

FORMAT = 1
"""Of the directory; to be raised when an older version could not read it rightly."""

MANIFEST = "manifest.json"
TOKENIZER_DIR = "tokenizer"
_PAIRS_PER_SHARD = 250_000
_MOST_SHARDS = 500
"""All are written at once, and a process may open 1,024 files or so."""

_REPORT_SECONDS = 5
_VERSIONED = (
    "tensorflow",
    "tensorflow-text",
    "sentencepiece",
    "babel",
    "num2words",
    "t2t-keras",
)


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
    bpe_dropout: BpeDropout | None = None,
    corpus_arguments: dict[str, Any] | None = None,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Learns the vocabulary of a corpus and writes its token ids.

    The directory appears whole, or, if anything fails, not at all; an empty directory
    that is there already is filled, the manifest last. Of dev and test
    the plain text is kept too, every pair of it, for evaluation by decoding.

    Args:
        corpus: Where the sentences come from.
        data_dir: The directory to make.
        subword: A key of `TOKENIZERS`. Default "bpe".
        vocab_size: Number of tokens of each vocabulary. Default 37,000.
        share_vocabulary: One vocabulary for both sides. Default True.
        tokenizers: Use these rather than learn a vocabulary.
        length_filter: Which pairs to keep. Default `LengthFilter()`.
        bpe_dropout: How to divide the kept training pairs into pieces. Default as
            `tokenizers` do, once each.
        corpus_arguments: How to open the corpus again, for the manifest.
        report: Receives a line of text at every milestone.

    Returns:
        The manifest, as written to `manifest.json`.

    Raises:
        ValueError: If `data_dir` exists already, the corpus is faulty, or the
            vocabulary has no merges to drop.
    """
    data_dir = Path(data_dir).resolve()
    if data_dir.exists() and not (data_dir.is_dir() and not any(data_dir.iterdir())):
        raise ValueError(
            f"{data_dir} is not an empty directory. Choose another one, or remove it "
            "first."
        )
    if bpe_dropout:
        check_merges(tokenizers.source.subword if tokenizers else subword)
    length_filter = length_filter or LengthFilter()
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    work_dir = Path(tempfile.mkdtemp(prefix=f".{data_dir.name}.", dir=data_dir.parent))
    work_dir.chmod(0o755)
    try:
        report(f"Reading the corpus {corpus.name} ...")
        available = corpus.splits()
        if "train" not in available:
            raise ValueError(f"{corpus.name} has no train split, only {available}.")
        if tokenizers is None:
            report(f"Learning a vocabulary of {vocab_size} ({subword}) ...")
            tokenizers = TokenizerPair.train(
                lambda: corpus.read("train"), subword, vocab_size, share_vocabulary
            )
            learned = tokenizers.source.vocab_size
            if learned < vocab_size:
                report(f"The text yields no more than {learned:,} tokens.")
        tokenizers.save(work_dir / TOKENIZER_DIR)
        splits = {
            split: _prepare_split(
                corpus,
                split,
                work_dir,
                tokenizers,
                length_filter,
                bpe_dropout if split == "train" else None,
                report,
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
            "format": FORMAT,
            "corpus": corpus.name,
            "corpus_arguments": corpus_arguments or {},
            "source_lang": corpus.source_lang,
            "target_lang": corpus.target_lang,
            "subword": tokenizers.source.subword,
            "source_vocab_size": tokenizers.source.vocab_size,
            "target_vocab_size": tokenizers.target.vocab_size,
            "share_vocabulary": tokenizers.shared,
            "vocabulary_fingerprint": tokenizers.fingerprint,
            "length_filter": dataclasses.asdict(length_filter),
            "bpe_dropout": bpe_dropout and dataclasses.asdict(bpe_dropout),
            "splits": splits,
            "versions": {name: metadata.version(name) for name in _VERSIONED},
        }
        write_atomically(
            work_dir / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n"
        )
        _put_in_place(work_dir, data_dir)
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
    bpe_dropout: BpeDropout | None,
    report: Callable[[str], None],
) -> dict[str, Any]:
    split_filter = dataclasses.replace(length_filter)
    sampler = BpeDropoutSampler(bpe_dropout, tokenizers) if bpe_dropout else None
    segmentations = bpe_dropout.segmentations if bpe_dropout else 1

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        kept, reported = 0, time.monotonic()
        for chunk in tokenize_pairs(texts(), tokenizers, split_filter):
            yield from sampler.id_pairs(chunk) if sampler else chunk.id_pairs()
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
        size = segmentations * sum(1 for _ in corpus.read(split))
        shards = min(max(1, -(-size // _PAIRS_PER_SHARD)), _MOST_SHARDS)
    kept, source_tokens, target_tokens = write_records(
        directory, split, shards, pairs()
    )
    removed = split_filter.removed
    causes = ", ".join(f"{count:,} {cause}" for cause, count in removed.items())
    times = f" {segmentations} times" if sampler else ""
    report(
        f"{split}: kept {kept // segmentations:,} pairs{times} ({source_tokens:,} "
        f"source and {target_tokens:,} target tokens); removed {causes}"
    )
    return {
        "pairs": kept,
        "source_tokens": source_tokens,
        "target_tokens": target_tokens,
        "removed": removed,
        "shards": shards,
    }


def _put_in_place(work_dir: Path, data_dir: Path) -> None:
    """Gives a finished directory its name.

    A directory that exists may be a mount point, which can only be filled; the
    manifest, without which it counts as empty, comes last.
    """
    if not data_dir.exists():
        work_dir.rename(data_dir)
        return
    entries = sorted(work_dir.iterdir(), key=lambda path: path.name == MANIFEST)
    for entry in entries:
        shutil.move(entry, data_dir / entry.name)
    work_dir.rmdir()


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
        try:
            self.manifest = json.loads(path.read_text())
            expected = self.manifest["vocabulary_fingerprint"]
        except (ValueError, KeyError) as error:
            raise ValueError(
                f"{path} is damaged ({error!r}). Run t2t-prepare again."
            ) from error
        if self.manifest.get("format") != FORMAT:
            raise ValueError(
                f"{self.data_dir} was made by another version of t2t-keras: its format "
                f"is {self.manifest.get('format')}, this version reads {FORMAT}. Run "
                "t2t-prepare again."
            )
        self.tokenizers = TokenizerPair.load(self.data_dir / TOKENIZER_DIR)
        if self.tokenizers.fingerprint != expected:
            raise ValueError(
                f"{self.data_dir} was prepared with another vocabulary: its records "
                f"have {expected}, its tokenizer is {self.tokenizers.fingerprint}. Run "
                "t2t-prepare again."
            )

    def examples(self, split: str) -> RecordExamples:
        """Opens the records of a split."""
        return RecordExamples(self.data_dir, split)
