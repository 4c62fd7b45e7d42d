"""Prepares a data directory: vocabulary, token ids and held-out text of a corpus.

A preparation consists of phases, and each phase of tasks that can run in any order and
in other processes: the text is copied to blocks of a fixed number of pairs, the
vocabulary is learned, and each block becomes a shard. Memory does not grow with the
corpus, and the result does not depend on what runs the tasks.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import shutil
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from t2t_keras.data.bpe_dropout import BpeDropout, check_merges
from t2t_keras.data.cleaning import clean
from t2t_keras.data.cleaning_options import CleaningOptions
from t2t_keras.data.corpora import SPLITS, Corpus
from t2t_keras.data.new_directory import new_directory
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.preparation_progress import Progress
from t2t_keras.data.prepared_data import FORMAT, MANIFEST, TOKENIZER_DIR, text_path
from t2t_keras.data.shards import ShardResult, ShardTask, write_shard
from t2t_keras.data.text_blocks import TextBlock, write_blocks
from t2t_keras.data.text_normalization import DEFAULT_NORMALIZATION
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.data.train_test_overlap import Overlap
from t2t_keras.data.vocabulary_text import vocabulary_text
from t2t_keras.errors import UserError
from t2t_keras.files import write_atomically
from t2t_keras.plurals import counted
from t2t_keras.tasks import LocalTaskRunner, TaskRunner

_PAIRS_PER_BLOCK = 250_000
_TEXT_DIR = "text"

_VERSIONED = (
    "tensorflow",
    "tensorflow-text",
    "sentencepiece",
    "babel",
    "num2words",
    "py3langid",
    "t2t-keras",
)


def prepare(
    corpus: Corpus,
    data_dir: str | Path,
    subword: str = "bpe",
    vocab_size: int = 37_000,
    share_vocabulary: bool = True,
    source_normalization: str = DEFAULT_NORMALIZATION,
    target_normalization: str = "identity",
    vocabulary_pairs: int = 1_000_000,
    tokenizers: TokenizerPair | None = None,
    cleaning: CleaningOptions | None = None,
    length_filter: LengthFilter | None = None,
    bpe_dropout: BpeDropout | None = None,
    corpus_arguments: dict[str, Any] | None = None,
    runner: TaskRunner | None = None,
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
        vocabulary_pairs: Maximum number of training pairs that the vocabulary is
            learned from. They are chosen evenly from a larger corpus. Default
            1,000,000.
        tokenizers: Tokenizers to use instead of learning a vocabulary. Default None.
        cleaning: Filters for the training text. Default none.
        length_filter: Filter for the tokenized pairs of all splits. Default
            `LengthFilter()`.
        bpe_dropout: BPE dropout for the training pairs. Default None (segment each
            pair once, deterministically).
        corpus_arguments: Arguments to open the corpus again, stored in the manifest.
            Default none.
        runner: Runs the tasks. Default `LocalTaskRunner()`.
        report: Called with a line of text at every milestone. Default `print`.

    Returns:
        The manifest, as written to `manifest.json`.

    Raises:
        UserError: If `data_dir` is not empty or another process is filling it, the
            corpus is invalid, a filter is unknown or cannot be imported, the filters
            remove all pairs, or BPE dropout is requested for a vocabulary without
            merges.
    """
    data_dir = Path(data_dir).resolve()
    runner = runner or LocalTaskRunner()
    if bpe_dropout:
        check_merges(tokenizers.source.subword if tokenizers else subword)
    cleaning = cleaning or CleaningOptions()
    # Report errors in the filters before hours of reading.
    filters = cleaning.make_filters(corpus.source_lang, corpus.target_lang, report)
    taken = (
        f"Another t2t-prepare is writing {data_dir}. Wait for it, or choose another "
        "--data_dir."
    )
    with new_directory(data_dir, MANIFEST, taken) as work_dir:
        report(f"Reading the corpus {corpus.name} ...")
        blocks = _read_corpus(corpus, work_dir, report)
        removed = None
        if cleaning:
            blocks["train"], removed = clean(
                blocks["train"],
                itertools.chain(*(blocks.get(split, []) for split in SPLITS[1:])),
                filters,
                cleaning,
                work_dir / _TEXT_DIR,
                runner,
                report,
            )
            report(f"Filters of training text:\n{removed.table()}")
            if not removed.kept:
                raise UserError(
                    f"The filters removed all training pairs of {corpus.name}."
                )
        if tokenizers is None:
            report(f"Learning a vocabulary of {vocab_size} tokens ({subword}) ...")
            tokenizers = TokenizerPair.train(
                vocabulary_text(blocks["train"], vocabulary_pairs),
                subword,
                vocab_size,
                share_vocabulary,
                source_normalization,
                target_normalization,
                corpus.tags,
            )
            _report_shortfall(tokenizers, vocab_size, report)
        _check_tags(corpus.tags, tokenizers.source)
        tokenizers.save(work_dir / TOKENIZER_DIR)
        length_filter = length_filter or LengthFilter()
        overlap = Overlap()
        for split in SPLITS[1:]:
            for block in blocks.get(split, []):
                overlap.add(split, block.read_chunks())
        new_task = functools.partial(
            ShardTask,
            directory=work_dir,
            subword=tokenizers.source.subword,
            models=(tokenizers.source.model, tokenizers.target.model),
            length_filter=length_filter,
        )
        for_train = {"bpe_dropout": bpe_dropout, "held_out": overlap.sources}
        splits = {}
        for split in blocks:
            arguments = for_train if split == "train" else {}
            task = functools.partial(new_task, split=split, **arguments)
            results = _write_shards(
                task, blocks[split], split, work_dir / _TEXT_DIR, runner, report
            )
            for result in results:
                overlap.record(result.held_out)
            is_sampled = split == "train" and bpe_dropout
            splits[split] = _summary(
                split,
                results,
                bpe_dropout.segmentations if bpe_dropout and is_sampled else None,
                report,
            )
        shutil.rmtree(work_dir / _TEXT_DIR)
        if not splits["train"]["pairs"]:
            raise UserError(
                f"The filters removed all training pairs of {corpus.name}: "
                f"{splits['train']['removed']}"
            )
        for split in overlap.splits:
            splits[split]["in_train"] = overlap.counts(split)
            if note := overlap.note(split):
                report(note)
        manifest = {
            "format": FORMAT,
            "corpus": corpus.name,
            "corpus_arguments": corpus_arguments or {},
            "source_lang": corpus.source_lang,
            "target_lang": corpus.target_lang,
            **tokenizers.description(),
            "filters": removed and cleaning.description(removed),
            "length_filter": dataclasses.asdict(length_filter),
            "bpe_dropout": bpe_dropout and dataclasses.asdict(bpe_dropout),
            "splits": splits,
            "versions": _versions(),
        }
        write_atomically(
            work_dir / MANIFEST, json.dumps(manifest, indent=2).encode() + b"\n"
        )
    return manifest


def _read_corpus(
    corpus: Corpus, directory: Path, report: Callable[[str], None]
) -> dict[str, list[TextBlock]]:
    """Copies the text of all splits to files, which are read several times."""
    available = corpus.splits()
    if "train" not in available:
        raise UserError(f"{corpus.name} has no train split, only {available}.")
    blocks: dict[str, list[TextBlock]] = {"train": []}
    # Read held-out text first, to find errors in it before hours of training text.
    for split in SPLITS[1:]:
        if split in available:
            path = functools.partial(_held_out_path, directory, split)
            blocks[split] = [*write_blocks(corpus.read_chunks(split), path)]
    (directory / _TEXT_DIR).mkdir()
    progress = Progress("train: read", None, report)
    for number, part in enumerate(corpus.train_parts()):
        path = functools.partial(_block_path, directory / _TEXT_DIR, number)
        for block in write_blocks(part.chunks, path, _PAIRS_PER_BLOCK):
            blocks["train"].append(
                dataclasses.replace(block, tag=part.tag, weight=part.weight)
            )
            progress.add(block.pairs)
    return blocks


def _held_out_path(directory: Path, split: str, number: int, side: str) -> Path:
    return text_path(directory, split, side)


def _block_path(directory: Path, part: int, number: int, side: str) -> Path:
    return directory / f"{part:03d}-{number:05d}.{side}"


def _write_shards(
    new_task: Callable[..., ShardTask],
    blocks: Sequence[TextBlock],
    split: str,
    directory: Path,
    runner: TaskRunner,
    report: Callable[[str], None],
) -> list[ShardResult]:
    """Tokenizes the blocks of a split. Each becomes a shard."""
    tasks = [
        new_task(block, shard=shard, shards=len(blocks))
        for shard, block in enumerate(blocks)
    ]
    progress = Progress(split, sum(block.pairs for block in blocks), report)
    results = []
    for block, result in zip(
        blocks,
        runner.run(f"tokenize {split}", write_shard, tasks, directory),
        strict=True,
    ):
        results.append(result)
        progress.add(block.pairs)
    return results


def _summary(
    split: str,
    results: Sequence[ShardResult],
    segmentations: int | None,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Returns the entry of a split in the manifest, and reports it."""
    pairs, source_tokens, target_tokens = (
        sum(getattr(result, name) for result in results)
        for name in ("pairs", "source_tokens", "target_tokens")
    )
    removed = {
        reason: sum(result.removed[reason] for result in results)
        for reason in results[0].removed
    }
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in removed.items())
    times = f" {counted(segmentations, 'time')}" if segmentations else ""
    report(
        f"{split}: kept {counted(pairs // (segmentations or 1), 'pair')}{times} "
        f"({source_tokens:,} source and {counted(target_tokens, 'target token')}); "
        f"removed {reasons}"
    )
    return {
        "pairs": pairs,
        "source_tokens": source_tokens,
        "target_tokens": target_tokens,
        "removed": removed,
        "shards": len(results),
        "index_digests": [result.index_digest for result in results],
    }


def _versions() -> dict[str, str]:
    """Returns the versions of the installed packages that determine the data."""
    versions = {}
    for name in _VERSIONED:
        # Some of them are optional.
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def _check_tags(tags: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raises a UserError unless each tag is a token of the source vocabulary."""
    pieces = {*tokenizer.pieces()}
    for tag in tags:
        if tag not in pieces:
            raise UserError(
                f"The tag {tag} is no token of the source vocabulary. Learn a "
                "vocabulary from this corpus, and use lower case if the normalization "
                "does."
            )


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
