"""Cleaning of training text: filters, duplicates and leaks of held-out text.

Filters look at one pair at a time, so that each block is a task. Duplicates are found
by 64-bit keys: each block writes its keys in ascending order, and a task compares a
range of keys of all blocks. Of duplicates, the first pair in the corpus is kept.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t_keras.config.filter_settings import DUPLICATES, HELD_OUT
from t2t_keras.data.cleaning_options import CleaningOptions
from t2t_keras.data.filters import (
    FilterReport,
    HeldOutKeys,
    TextFilter,
    apply_filters,
    keys,
)
from t2t_keras.data.pair_scores import write_scores
from t2t_keras.data.preparation_progress import Progress
from t2t_keras.data.text_blocks import TextBlock
from t2t_keras.files import atomic_writer
from t2t_keras.tasks import TaskRunner

_KEYS_PER_TASK = 4_000_000
_KEY_ROW = np.dtype([("key", "<u8"), ("row", "<u4")])
_PLACE = np.dtype([("block", "<u4"), ("row", "<u4")])


SCORE = "score"
"""Name of the filter by scores in reports."""


class _Cleaning(NamedTuple):
    filters: Sequence[TextFilter]
    min_score: float | None
    held_out: HeldOutKeys | None
    duplicates: Sequence[str]
    is_normalized: bool


class _BlockTask(NamedTuple):
    cleaning: _Cleaning
    block: TextBlock
    scores: Path | None
    number: int
    first: int
    directory: Path
    partitions: int


class _DuplicatesTask(NamedTuple):
    name: str
    directory: Path
    blocks: int
    partition: int
    partitions: int


def clean(
    blocks: Sequence[TextBlock],
    held_out: Iterable[TextBlock],
    filters: Sequence[TextFilter],
    options: CleaningOptions,
    directory: Path,
    runner: TaskRunner,
    report: Callable[[str], None],
) -> tuple[list[TextBlock], FilterReport]:
    """Removes pairs from training text.

    Args:
        blocks: The training text.
        held_out: The dev and test text.
        filters: Filters of single pairs, in order.
        options: What else to remove.
        directory: An existing directory for files that the result needs.
        runner: Runs the tasks.
        report: Called with a line of text now and then.

    Returns:
        The same blocks with the pairs to keep, and a report of what was removed.

    Raises:
        UserError: If a file of scores is invalid, or a user's filter fails.
    """
    scores: Sequence[Path | None] = [None] * len(blocks)
    if options.score_files:
        scores = write_scores(options.score_files, blocks, directory)
    keys_of_held_out = None
    if options.has_held_out:
        chunks = itertools.chain(*(block.read_chunks() for block in held_out))
        text = (pair for sides in chunks for pair in zip(*sides, strict=True))
        keys_of_held_out = HeldOutKeys(options.is_normalized, text)
    cleaning = _Cleaning(
        filters,
        options.min_score,
        keys_of_held_out,
        options.duplicates,
        options.is_normalized,
    )
    total = sum(block.pairs for block in blocks)
    partitions = max(1, -(-total // _KEYS_PER_TASK))
    firsts = itertools.accumulate((block.pairs for block in blocks), initial=0)
    tasks = [
        _BlockTask(cleaning, *block, number, first, directory, partitions)
        for number, (block, first) in enumerate(
            zip(zip(blocks, scores, strict=True), firsts, strict=False)
        )
    ]
    progress = Progress("filtered", total, report)
    removed = FilterReport()
    for task, found in zip(
        tasks, runner.run("filter", _filter_block, tasks, directory), strict=True
    ):
        removed += found
        progress.add(task.block.pairs)
    if options.duplicates:
        searches = [
            _DuplicatesTask(name, directory, len(blocks), partition, partitions)
            for name in options.duplicates
            for partition in range(partitions)
        ]
        list(runner.run("find duplicates", _find_duplicates, searches, directory))
        for found in runner.run(
            "remove duplicates", _remove_duplicates, tasks, directory
        ):
            removed += found
    mask_path = _final_mask_path if options.duplicates else _mask_path
    cleaned = [
        dataclasses.replace(block, keep=mask_path(directory, number))
        for number, block in enumerate(blocks)
    ]
    return cleaned, removed


def _mask_path(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}.filtered.npy"


def _final_mask_path(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}.deduplicated.npy"


def _keys_path(directory: Path, name: str, number: int) -> Path:
    return directory / f"{number:05d}.{name}.npy"


def _duplicates_path(directory: Path, name: str, partition: int) -> Path:
    return directory / f"{name}-{partition:05d}.npy"


def _save(path: Path, array: np.ndarray) -> None:
    with atomic_writer(path) as file:
        np.save(file, array)


def _filter_block(task: _BlockTask) -> FilterReport:
    """Applies the filters to a block and writes its mask and the keys of its pairs."""
    cleaning = task.cleaning
    report = FilterReport()
    masks = [np.empty(0, bool)]
    found: dict[str, list[np.ndarray]] = {name: [] for name in cleaning.duplicates}
    scores = None if task.scores is None else np.load(task.scores)
    row = 0
    for sources, targets in task.block.read_chunks():
        first = task.first + row
        keep, removed = apply_filters(cleaning.filters, sources, targets, first)
        if scores is not None and cleaning.min_score is not None:
            # Not a number: t2t-score could not compute a score.
            is_low = ~(scores[row : row + len(sources)] >= cleaning.min_score)
            removed.record(
                SCORE, np.flatnonzero(keep & is_low), sources, targets, first
            )
            keep &= ~is_low
        if cleaning.held_out:
            kept = np.flatnonzero(keep)
            leaks = kept[cleaning.held_out.leaks(*_select(sources, targets, kept))]
            removed.record(HELD_OUT, leaks, sources, targets, first)
            keep[leaks] = False
        kept = np.flatnonzero(keep)
        for name, arrays in found.items():
            rows = np.empty(len(kept), _KEY_ROW)
            texts = _select(sources, targets, kept)
            rows["key"] = keys(DUPLICATES[name], cleaning.is_normalized, *texts)
            rows["row"] = kept + row
            arrays.append(rows)
        masks.append(keep)
        report += removed
        row += len(sources)
    _save(_mask_path(task.directory, task.number), np.concatenate(masks))
    for name, arrays in found.items():
        rows = np.concatenate([np.empty(0, _KEY_ROW), *arrays])
        rows = rows[np.argsort(rows["key"], kind="stable")]
        _save(_keys_path(task.directory, name, task.number), rows)
    return report


def _select(
    sources: Sequence[str], targets: Sequence[str], rows: np.ndarray
) -> tuple[list[str], list[str]]:
    return [sources[i] for i in rows.tolist()], [targets[i] for i in rows.tolist()]


def _find_duplicates(task: _DuplicatesTask) -> None:
    """Writes the places of all pairs but the first of each key of a partition."""
    found, places = [np.empty(0, np.uint64)], [np.empty(0, _PLACE)]
    width = -(-(1 << 64) // task.partitions)
    lowest = np.uint64(task.partition * width)
    highest = np.uint64(min((task.partition + 1) * width, 1 << 64) - 1)
    for number in range(task.blocks):
        path = _keys_path(task.directory, task.name, number)
        rows = np.load(path, mmap_mode="r")
        start = np.searchsorted(rows["key"], lowest, "left")
        end = np.searchsorted(rows["key"], highest, "right")
        place = np.empty(end - start, _PLACE)
        place["block"], place["row"] = number, rows["row"][start:end]
        found.append(rows["key"][start:end])
        places.append(place)
    joined, place = np.concatenate(found), np.concatenate(places)
    # A stable sort keeps the order of the corpus within a key.
    order = np.argsort(joined, kind="stable")
    again = np.concatenate([[False], np.diff(joined[order]) == 0])[: len(order)]
    duplicates = np.sort(place[order[again]], order=["block", "row"])
    _save(_duplicates_path(task.directory, task.name, task.partition), duplicates)


def _remove_duplicates(task: _BlockTask) -> FilterReport:
    """Removes the duplicates in a block from its mask."""
    keep = np.load(_mask_path(task.directory, task.number))
    report = FilterReport()
    for name in task.cleaning.duplicates:
        rows = np.sort(np.concatenate([*_duplicate_rows(task, name)]))
        removed = rows[keep[rows]]
        keep[removed] = False
        shown = removed[: report.max_examples]
        examples = zip(
            (task.first + shown).tolist(), task.block.read(shown), strict=True
        )
        report.add(name, len(removed), examples)
    _save(_final_mask_path(task.directory, task.number), keep)
    return report


def _duplicate_rows(task: _BlockTask, name: str) -> Iterator[np.ndarray]:
    """Yields the rows of a block that are duplicates, by partition."""
    for partition in range(task.partitions):
        path = _duplicates_path(task.directory, name, partition)
        places = np.load(path, mmap_mode="r")
        start, end = np.searchsorted(places["block"], [task.number, task.number + 1])
        yield places["row"][start:end].astype(np.int64)
