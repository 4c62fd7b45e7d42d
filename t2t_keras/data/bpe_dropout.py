"""BPE dropout: randomized segmentation of training text (Provilkov et al., 2020)."""

import dataclasses
import random
import re
from collections.abc import Callable, Iterator

import numpy as np

from t2t_keras.data.examples import TokenizedChunk
from t2t_keras.data.tokenizer import Tokenizer, clean_line
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.errors import UserError

SIDES = ("both", "source", "target")
_WORD = re.compile("\u2581?[^\u2581]+|\u2581")


@dataclasses.dataclass(frozen=True)
class BpeDropout:
    """Settings for BPE dropout on the training pairs.

    Args:
        dropout: Probability of skipping a merge each time it could be applied; p in
            the paper, which uses 0.1.
        segmentations: Number of random segmentations per pair. Default 10.
        sides: Side to segment randomly: "both", "source" or "target". The other side
            keeps its deterministic segmentation. Default "both".

    Raises:
        UserError: If an argument is out of range.
    """

    dropout: float
    segmentations: int = 10
    sides: str = "both"

    def __post_init__(self) -> None:
        if not 0 < self.dropout < 1:
            raise UserError(
                "bpe_dropout must be between 0 and 1, exclusive. Received: "
                f"{self.dropout}"
            )
        if self.segmentations < 1:
            raise UserError(
                f"segmentations must be at least 1. Received: {self.segmentations}"
            )
        if self.sides not in SIDES:
            raise UserError(
                f"bpe_dropout_sides must be one of {', '.join(SIDES)}. Received: "
                f"{self.sides}"
            )


class BpeDropoutSampler:
    """Samples random segmentations of sentence pairs, reproducibly.

    Args:
        options: The settings.
        tokenizers: BPE tokenizers of both sides.
    """

    def __init__(self, options: BpeDropout, tokenizers: TokenizerPair) -> None:
        self._options = options
        # SentencePiece can sample too, but its samples differ from process to process,
        # and unlike the paper it never retries a merge that it skipped.
        self._random = random.Random(0)
        self._source = self._target = Merges(tokenizers.source)
        if tokenizers.source is not tokenizers.target:
            self._target = Merges(tokenizers.target)

    def id_pairs(
        self, chunk: TokenizedChunk
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields source and target ids, without EOS, `segmentations` times a pair."""
        for default_ids, source, target in zip(
            chunk.id_pairs(), chunk.source_text, chunk.target_text, strict=True
        ):
            source_words = self._source.words(source.decode("utf-8"))
            target_words = self._target.words(target.decode("utf-8"))
            for _ in range(self._options.segmentations):
                source_ids, target_ids = default_ids
                if self._options.sides != "target":
                    source_ids = self._sample(self._source, source_words)
                if self._options.sides != "source":
                    target_ids = self._sample(self._target, target_words)
                yield source_ids, target_ids

    def _sample(self, merges: "Merges", words: list[str]) -> np.ndarray:
        return merges.ids(words, self._options.dropout, self._random.random)


def check_merges(subword: str) -> None:
    """Raises a UserError unless the subword type is BPE, the only one with merges."""
    if subword != "bpe":
        raise UserError(
            "BPE dropout skips merges, so it needs a byte-pair encoding vocabulary "
            f"(--subword=bpe). Received: {subword}"
        )


class Merges:
    """The merges of a byte-pair encoding vocabulary.

    Args:
        tokenizer: A BPE tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        import sentencepiece

        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=tokenizer.model
        )
        # Ids are assigned in the order in which the merges were learned.
        self._ids = {
            self._processor.id_to_piece(i): i
            for i in range(self._processor.vocab_size())
            if not (self._processor.is_control(i) or self._processor.is_unknown(i))
        }
        self._unknown = self._processor.unk_id()

    def words(self, text: str) -> list[str]:
        """Normalizes a text and splits it into words. No merge crosses a word."""
        return _WORD.findall(self._processor.normalize(clean_line(text)))

    def ids(
        self, words: list[str], dropout: float, draw: Callable[[], float]
    ) -> np.ndarray:
        """Returns the ids of words, segmented by algorithm 1 of the paper.

        Args:
            words: Words as returned by `words`.
            dropout: Probability of skipping a merge.
            draw: Returns a random number in [0, 1).

        Returns:
            `[tokens]` int32.
        """
        ids: list[int] = []
        for word in words:
            pieces = list(word)
            while merges := [
                (rank, place)
                for place in range(len(pieces) - 1)
                if (rank := self._ids.get(pieces[place] + pieces[place + 1]))
                and draw() >= dropout
            ]:
                place = min(merges)[1]
                pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
            for piece in pieces:
                found = self._ids.get(piece, self._unknown)
                # Like SentencePiece, merge consecutive unknown characters into one.
                if found != self._unknown or ids[-1:] != [self._unknown]:
                    ids.append(found)
        return np.array(ids, np.int32)
