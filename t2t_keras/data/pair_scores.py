"""Scores of training pairs, such as those of t2t-score."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from t2t_keras.data.text_blocks import TextBlock
from t2t_keras.data.text_lines import read_lines
from t2t_keras.errors import UserError
from t2t_keras.files import atomic_writer
from t2t_keras.plurals import counted


def parse_score(line: str, place: str) -> float:
    """Returns the score of a pair.

    Args:
        line: A number, or a line of t2t-score: a total, a tab, and the log-probability
            of each token. Their mean is the score, so that scores of short and long
            sentences are comparable.
        place: File and line number for the error message.

    Returns:
        The score, or NaN if t2t-score has not computed one.

    Raises:
        UserError: If the line is neither.
    """
    total, tab, rest = line.partition("\t")
    tokens = rest.partition("\t")[0]
    if tab and not total:
        return math.nan
    try:
        values = [*map(float, tokens.split())] if tab else [float(total)]
        return sum(values) / len(values)
    except (ValueError, ZeroDivisionError) as error:
        raise UserError(
            f"{place}: expected a number or a line of t2t-score. Received: {line!r}"
        ) from error


def write_scores(
    files: Sequence[str], blocks: Sequence[TextBlock], directory: Path
) -> list[Path]:
    """Writes the scores of each block to a file.

    Args:
        files: Files with a score for each pair, in order.
        blocks: The text.
        directory: An existing directory.

    Returns:
        Files of NumPy arrays, `[block.pairs]` float64.

    Raises:
        UserError: If there are more or fewer scores than pairs, or a line is invalid.
    """
    scores = _read(files)
    paths = []
    for number, block in enumerate(blocks):
        found = np.fromiter(itertools.islice(scores, block.pairs), np.float64)
        if len(found) < block.pairs:
            have = sum(b.pairs for b in blocks[:number]) + len(found)
            raise _mismatch(files, counted(have, "score"), blocks)
        paths.append(directory / f"{number:05d}.scores.npy")
        with atomic_writer(paths[-1]) as file:
            np.save(file, found)
    if next(scores, None) is not None:
        raise _mismatch(files, "more scores", blocks)
    return paths


def _read(files: Sequence[str]) -> Iterator[float]:
    for path in files:
        for number, line in enumerate(read_lines(path), 1):
            yield parse_score(line, f"{path}:{number}")


def _mismatch(
    files: Sequence[str], found: str, blocks: Sequence[TextBlock]
) -> UserError:
    pairs = counted(sum(block.pairs for block in blocks), "training pair")
    return UserError(
        f"{', '.join(files)}: there must be a score for each of the {pairs}. Received: "
        f"{found}"
    )
