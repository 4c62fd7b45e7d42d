"""A prepared directory: vocabulary, token ids and held-back text of a corpus."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.counted import counted
from t2t_keras.data.bpe_dropout import BpeDropout, BpeDropoutSampler, check_merges
from t2t_keras.data.corpora import SPLITS, Corpus
from t2t_keras.data.examples import tokenize_pairs
from t2t_keras.data.filters import LengthFilter
from t2t_keras.data.new_directory import is_being_filled, new_directory
from t2t_keras.data.normalization import DEFAULT_NORMALIZATION
from t2t_keras.data.overlap import Overlap
from t2t_keras.data.records import RecordExamples, write_records
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.errors import UserError
from t2t_keras.files import user_path, write_atomically
from t2t_keras.json_file import read_object, require_keys

_NEEDED = ("vocabulary_fingerprint", "target_lang", "splits")

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
    source_normalization: str = DEFAULT_NORMALIZATION,
    target_normalization: str = "identity",
    tokenizers: TokenizerPair | None = None,
    length_filter: LengthFilter | None = None,
    bpe_dropout: BpeDropout | None = None,
    corpus_arguments: dict[str, Any] | None = None,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Learns the vocabulary of a corpus and writes its token ids.

    The directory is filled whole, or, if anything fails, not at all, and by one process
    at a time: see `new_directory`. Of dev and test the plain text is kept too, every
    pair of it, for evaluation by decoding.

    Args:
        corpus: Where the sentences come from.
        data_dir: The directory to make.
        subword: A key of `TOKENIZERS`. Default "bpe".
        vocab_size: Number of tokens of each vocabulary. Default 37,000.
        share_vocabulary: One vocabulary for both sides. Default True.
        source_normalization: What is done to the source side's characters, one of
            `NORMALIZATIONS`. Default "nmt_nfkc", by which input that is typed in
            another way than the training text is known all the same.
        target_normalization: Likewise, to the target side's. Default "identity", so
            that the model writes as the training text does.
        tokenizers: Use these rather than learn a vocabulary.
        length_filter: Which pairs to keep. Default `LengthFilter()`.
        bpe_dropout: How to divide the kept training pairs into pieces. Default as
            `tokenizers` do, once each.
        corpus_arguments: How to open the corpus again, for the manifest.
        report: Receives a line of text at every milestone.

    Returns:
        The manifest, as written to `manifest.json`.

    Raises:
        UserError: If `data_dir` is not empty, another process is filling it, the
            corpus is faulty, or the vocabulary has no merges to drop.
    """
    data_dir = Path(data_dir).resolve()
    if bpe_dropout:
        check_merges(tokenizers.source.subword if tokenizers else subword)
    length_filter = length_filter or LengthFilter()
    taken = (
        f"Another t2t-prepare is writing {data_dir}. Wait for it, or choose another "
        "--data_dir."
    )
    with new_directory(data_dir, MANIFEST, taken) as work_dir:
        report(f"Reading the corpus {corpus.name} ...")
        available = corpus.splits()
        if "train" not in available:
            raise UserError(f"{corpus.name} has no train split, only {available}.")
        # Held-out text first: mistakes in it are found before hours of training text.
        overlap = Overlap()
        held_out = [split for split in SPLITS[1:] if split in available]
        for split in held_out:
            overlap.add(split, corpus.read(split))
        if tokenizers is None:
            report(f"Learning a vocabulary of {vocab_size} ({subword}) ...")
            tokenizers = TokenizerPair.train(
                lambda: corpus.read("train"),
                subword,
                vocab_size,
                share_vocabulary,
                source_normalization,
                target_normalization,
            )
            _report_shortfall(tokenizers, vocab_size, report)
        tokenizers.save(work_dir / TOKENIZER_DIR)
        pairs_of_training = sum(1 for _ in overlap.watch(corpus.read("train")))
        splits = {
            split: _prepare_split(
                corpus,
                split,
                work_dir,
                tokenizers,
                length_filter,
                bpe_dropout if split == "train" else None,
                pairs_of_training if split == "train" else 0,
                report,
            )
            for split in SPLITS
            if split in available
        }
        for split in held_out:
            splits[split]["in_train"] = overlap.counts(split)
            if note := overlap.note(split):
                report(note)
        if not splits["train"]["pairs"]:
            raise UserError(
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
            "normalization": tokenizers.normalization,
            "length_filter": dataclasses.asdict(length_filter),
            "bpe_dropout": bpe_dropout and dataclasses.asdict(bpe_dropout),
            "splits": splits,
            "versions": {name: metadata.version(name) for name in _VERSIONED},
        }
        write_atomically(
            work_dir / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n"
        )
    return manifest


def _report_shortfall(
    tokenizers: TokenizerPair, vocab_size: int, report: Callable[[str], None]
) -> None:
    sides = {"source": tokenizers.source, "target": tokenizers.target}
    if tokenizers.shared:
        sides = {"": tokenizers.source}
    for side, tokenizer in sides.items():
        if tokenizer.vocab_size < vocab_size:
            text = f"{side} text".strip()
            tokens = counted(tokenizer.vocab_size, "token")
            report(f"The {text} yields no more than {tokens}.")


def _prepare_split(
    corpus: Corpus,
    split: str,
    directory: Path,
    tokenizers: TokenizerPair,
    length_filter: LengthFilter,
    bpe_dropout: BpeDropout | None,
    size: int,
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
                report(f"{split}: kept {counted(kept, 'pair')} so far")
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

    shards = -(-segmentations * size // _PAIRS_PER_SHARD)
    shards = min(max(1, shards), _MOST_SHARDS)
    kept, source_tokens, target_tokens = write_records(
        directory, split, shards, pairs()
    )
    removed = split_filter.removed
    causes = ", ".join(f"{count:,} {cause}" for cause, count in removed.items())
    times = f" {counted(segmentations, 'time')}" if sampler else ""
    report(
        f"{split}: kept {counted(kept // segmentations, 'pair')}{times} "
        f"({source_tokens:,} source and {counted(target_tokens, 'target token')}); "
        f"removed {causes}"
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
        UserError: If the directory was not made by `prepare`, or its vocabulary is
            not the one that its records were written with.
    """

    def __init__(self, data_dir: str | Path) -> None:
        self.data_dir = Path(data_dir)
        path = self.data_dir / MANIFEST
        with user_path(path, "read"):
            is_prepared = path.is_file()
        if not is_prepared:
            todo = "Run t2t-prepare first."
            if is_being_filled(self.data_dir):
                todo = "t2t-prepare is still writing it."
            raise UserError(
                f"{self.data_dir} holds no prepared data ({MANIFEST}). {todo}"
            )
        again = "Run t2t-prepare again."
        self.manifest = read_object(path, todo=again)
        if self.manifest.get("format") != FORMAT:
            raise UserError(
                f"{self.data_dir} was made by another version of t2t-keras: its format "
                f"is {self.manifest.get('format')}, this version reads {FORMAT}. "
                f"{again}"
            )
        require_keys(path, self.manifest, _NEEDED, again)
        expected = self.manifest["vocabulary_fingerprint"]
        self.tokenizers = TokenizerPair.load(self.data_dir / TOKENIZER_DIR)
        if self.tokenizers.fingerprint != expected:
            raise UserError(
                f"{self.data_dir} was prepared with another vocabulary: its records "
                f"have {expected}, its tokenizer is {self.tokenizers.fingerprint}. Run "
                "t2t-prepare again."
            )

    def examples(self, split: str) -> RecordExamples:
        """Opens the records of a split.

        Raises:
            UserError: If they are missing, damaged, or not those of the manifest.
        """
        examples = RecordExamples(self.data_dir, split)
        expected = self.manifest["splits"].get(split, {}).get("pairs", 0)
        if len(examples) != expected:
            raise UserError(
                f"{self.data_dir} has {counted(len(examples), 'pair')} of {split}, its "
                f"{MANIFEST} counts {expected:,}: they were not written together. Run "
                "t2t-prepare again."
            )
        return examples
