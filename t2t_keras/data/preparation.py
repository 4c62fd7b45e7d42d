"""Data directories: vocabulary, token ids and held-out text of a corpus."""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.data.bpe_dropout import BpeDropout, BpeDropoutSampler, check_merges
from t2t_keras.data.corpora import SPLITS, Corpus
from t2t_keras.data.examples import tokenize_pairs
from t2t_keras.data.new_directory import is_being_filled, new_directory
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.text_normalization import DEFAULT_NORMALIZATION
from t2t_keras.data.tfrecords import RecordExamples, write_records
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.data.train_test_overlap import Overlap
from t2t_keras.errors import UserError
from t2t_keras.files import user_path, write_atomically
from t2t_keras.json_file import read_object, require_keys
from t2t_keras.plurals import counted

_NEEDED = ("vocabulary_fingerprint", "target_lang", "splits")

FORMAT = 1
"""Format version of a data directory. Raise it when older code cannot read new ones."""

MANIFEST = "manifest.json"
TOKENIZER_DIR = "tokenizer"
_PAIRS_PER_SHARD = 250_000
_MAX_SHARDS = 500
"""All shards are open at once, and a process may open about 1,024 files."""

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
    """Returns the path of the plain text of a held-out split.

    Args:
        directory: A data directory or a model directory.
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
    """Learns the vocabulary of a corpus and writes its token ids to a data directory.

    The directory is created completely or, after a failure, not at all, and by one
    process at a time; see `new_directory`. The plain text of all dev and test pairs is
    kept for evaluation by decoding.

    Args:
        corpus: The corpus.
        data_dir: The directory to create.
        subword: Type of subwords, a key of `TOKENIZERS`. Default "bpe".
        vocab_size: Number of tokens of each vocabulary. Default 37,000.
        share_vocabulary: Whether both sides share one vocabulary. Default True.
        source_normalization: Normalization of the source side, one of
            `NORMALIZATIONS`. Default "nmt_nfkc", so that input with other characters
            of the same meaning than in the training text is tokenized like it.
        target_normalization: Normalization of the target side, one of
            `NORMALIZATIONS`. Default "identity", so that the model writes characters
            as in the training text.
        tokenizers: Tokenizers to use instead of learning a vocabulary. Default None.
        length_filter: Filter for the pairs. Default `LengthFilter()`.
        bpe_dropout: BPE dropout for the training pairs. Default None (segment each
            pair once, deterministically).
        corpus_arguments: Arguments to open the corpus again, stored in the manifest.
            Default none.
        report: Called with a line of text at every milestone. Default `print`.

    Returns:
        The manifest, as written to `manifest.json`.

    Raises:
        UserError: If `data_dir` is not empty or another process is filling it, the
            corpus is invalid, or BPE dropout is requested for a vocabulary without
            merges.
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
        # Read held-out text first, to find errors in it before hours of training text.
        overlap = Overlap()
        held_out = [split for split in SPLITS[1:] if split in available]
        for split in held_out:
            overlap.add(split, corpus.read(split))
        if tokenizers is None:
            report(f"Learning a vocabulary of {vocab_size} tokens ({subword}) ...")
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
        train_pairs = sum(1 for _ in overlap.watch(corpus.read("train")))
        splits = {
            split: _prepare_split(
                corpus,
                split,
                work_dir,
                tokenizers,
                length_filter,
                bpe_dropout if split == "train" else None,
                train_pairs if split == "train" else 0,
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
                f"The filters removed all training pairs of {corpus.name}: "
                f"{splits['train']['removed']}"
            )
        manifest = {
            "format": FORMAT,
            "corpus": corpus.name,
            "corpus_arguments": corpus_arguments or {},
            "source_lang": corpus.source_lang,
            "target_lang": corpus.target_lang,
            **tokenizers.description(),
            "length_filter": dataclasses.asdict(length_filter),
            "bpe_dropout": bpe_dropout and dataclasses.asdict(bpe_dropout),
            "splits": splits,
            "versions": _versions(),
        }
        write_atomically(
            work_dir / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n"
        )
    return manifest


def _versions() -> dict[str, str]:
    """Returns the versions of the installed packages that determine the data."""
    versions = {}
    for name in _VERSIONED:
        # Babel and num2words are optional.
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


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
            report(f"The {text} yields only {tokens}.")


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
    shards = min(max(1, shards), _MAX_SHARDS)
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
    """A data directory that `prepare` created.

    Args:
        data_dir: The directory.

    Attributes:
        manifest: The manifest that `prepare` returned.
        tokenizers: The tokenizers of both sides.

    Raises:
        UserError: If `prepare` did not create the directory, or its records were
            written with another vocabulary.
    """

    def __init__(self, data_dir: str | Path) -> None:
        self.data_dir = Path(data_dir)
        path = self.data_dir / MANIFEST
        with user_path(path, "read"):
            is_prepared = path.is_file()
        if not is_prepared:
            hint = "Run t2t-prepare first."
            if is_being_filled(self.data_dir):
                hint = "t2t-prepare is still writing it."
            raise UserError(
                f"{self.data_dir} holds no prepared data ({MANIFEST}). {hint}"
            )
        again = "Run t2t-prepare again."
        self.manifest = read_object(path, todo=again)
        if self.manifest.get("format") != FORMAT:
            raise UserError(
                f"The format of {self.data_dir} must be {FORMAT}. Received: "
                f"{self.manifest.get('format')}. Another version of t2t-keras wrote "
                f"it. {again}"
            )
        require_keys(path, self.manifest, _NEEDED, again)
        expected = self.manifest["vocabulary_fingerprint"]
        self.tokenizers = TokenizerPair.load(self.data_dir / TOKENIZER_DIR)
        if self.tokenizers.fingerprint != expected:
            raise UserError(
                f"{self.data_dir} was prepared with another vocabulary: its records "
                f"were written with {expected}, its tokenizer is "
                f"{self.tokenizers.fingerprint}. Run t2t-prepare again."
            )

    def examples(self, split: str) -> RecordExamples:
        """Opens the records of a split.

        Raises:
            UserError: If they are missing, damaged, or do not match the manifest.
        """
        examples = RecordExamples(self.data_dir, split)
        expected = self.manifest["splits"].get(split, {}).get("pairs", 0)
        if len(examples) != expected:
            found = counted(len(examples), f"{split} pair")
            raise UserError(
                f"{self.data_dir} has {found}, but its {MANIFEST} counts {expected:,}: "
                "they were not written together. Run t2t-prepare again."
            )
        return examples
