"""BPE dropout: randomized segmentation of training text (Provilkov et al., 2020)."""

import dataclasses
import random
import re
from collections.abc import Callable, Sequence

from t2t_keras.data.word_counts import clean_line
from t2t_keras.data.word_encoding import EncodedLines, count_varints, varints
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
        models: Serialized BPE tokenizers of the source and the target side.
        seed: Random seed. Default 0.
    """

    def __init__(
        self, options: BpeDropout, models: tuple[bytes, bytes], seed: int = 0
    ) -> None:
        self._options = options
        # SentencePiece can sample too, but its samples differ from process to process,
        # and unlike the paper it never retries a merge that it skipped.
        self._random = random.Random(seed)
        self._source = self._target = Merges(models[0])
        if models[0] != models[1]:
            self._target = Merges(models[1])

    def sample(
        self,
        source_text: Sequence[str],
        target_text: Sequence[str],
        source: EncodedLines,
        target: EncodedLines,
    ) -> tuple[EncodedLines, EncodedLines]:
        """Samples `segmentations` segmentations of each pair.

        Args:
            source_text: `[n]` source sentences.
            target_text: `[n]` target sentences.
            source: Their deterministic segmentation.
            target: Their deterministic segmentation.

        Returns:
            `[n * segmentations]` segmentations of the sources and the targets.
        """
        sides: tuple[list[bytes], list[bytes]] = [], []
        for number, texts in enumerate(zip(source_text, target_text, strict=True)):
            source_words = self._source.words(texts[0])
            target_words = self._target.words(texts[1])
            for _ in range(self._options.segmentations):
                source_ids, target_ids = source.ids[number], target.ids[number]
                if self._options.sides != "target":
                    source_ids = self._sample(self._source, source_words)
                if self._options.sides != "source":
                    target_ids = self._sample(self._target, target_words)
                sides[0].append(source_ids)
                sides[1].append(target_ids)
        sampled_source, sampled_target = (
            EncodedLines(ids, count_varints(ids)) for ids in sides
        )
        return sampled_source, sampled_target

    def _sample(self, merges: "Merges", words: list[str]) -> bytes:
        return varints(merges.ids(words, self._options.dropout, self._random.random))


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
        model: Serialized SentencePiece model.
    """

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
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
    ) -> list[int]:
        """Returns the ids of words, segmented by algorithm 1 of the paper.

        Args:
            words: Words as returned by `words`.
            dropout: Probability of skipping a merge.
            draw: Returns a random number in [0, 1).
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
        return ids
