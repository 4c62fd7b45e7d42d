"""BPE dropout: training text in other pieces than usual (Provilkov et al., 2020)."""

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
    """How the pairs of the training text are divided into pieces.

    Args:
        dropout: Probability that a merge is passed over when it could be made, p in
            that paper, which takes 0.1.
        segmentations: How often each pair is divided anew. Default 10.
        sides: "both" (the default), "source" or "target"; the other side is divided as
            usual.

    Raises:
        UserError: If an argument is out of its range.
    """

    dropout: float
    segmentations: int = 10
    sides: str = "both"

    def __post_init__(self) -> None:
        if not 0 < self.dropout < 1:
            raise UserError(
                f"bpe_dropout is a probability below 1. Received: {self.dropout}"
            )
        if self.segmentations < 1:
            raise UserError(
                f"segmentations is at least 1. Received: {self.segmentations}"
            )
        if self.sides not in SIDES:
            raise UserError(
                f"bpe_dropout_sides is one of {', '.join(SIDES)}. Received: "
                f"{self.sides}"
            )


class BpeDropoutSampler:
    """Draws the segmentations of one pair after another, always the same ones.

    Args:
        options: What to draw.
        tokenizers: The tokenizers of both sides, of the kind "bpe".
    """

    def __init__(self, options: BpeDropout, tokenizers: TokenizerPair) -> None:
        self._options = options
        # SentencePiece draws too, but other pieces in each process, and fewer merges
        # than the paper: what it passed over once it does not try again.
        self._random = random.Random(0)
        self._source = self._target = Merges(tokenizers.source)
        if tokenizers.source is not tokenizers.target:
            self._target = Merges(tokenizers.target)

    def id_pairs(
        self, chunk: TokenizedChunk
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the ids of source and target, without ends, `segmentations` times."""
        for usual, source, target in zip(
            chunk.id_pairs(), chunk.source_text, chunk.target_text, strict=True
        ):
            source_words = self._source.words(source.decode("utf-8"))
            target_words = self._target.words(target.decode("utf-8"))
            for _ in range(self._options.segmentations):
                source_ids, target_ids = usual
                if self._options.sides != "target":
                    source_ids = self._draw(self._source, source_words)
                if self._options.sides != "source":
                    target_ids = self._draw(self._target, target_words)
                yield source_ids, target_ids

    def _draw(self, merges: "Merges", words: list[str]) -> np.ndarray:
        return merges.ids(words, self._options.dropout, self._random.random)


def check_merges(subword: str) -> None:
    """Raises a UserError unless this kind of subwords is made of merges."""
    if subword != "bpe":
        raise UserError(
            "BPE dropout passes over merges, which only a vocabulary of byte-pair "
            f"encoding has (--subword=bpe). Received: {subword}"
        )


class Merges:
    """The merges of a vocabulary of byte-pair encoding.

    Args:
        tokenizer: A tokenizer of the kind "bpe".
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        import sentencepiece

        self._processor = sentencepiece.SentencePieceProcessor(
            model_proto=tokenizer.model
        )
        # Ids of pieces are in the order in which they were learned.
        self._ids = {
            self._processor.id_to_piece(i): i
            for i in range(self._processor.vocab_size())
            if not (self._processor.is_control(i) or self._processor.is_unknown(i))
        }
        self._unknown = self._processor.unk_id()

    def words(self, text: str) -> list[str]:
        """Normalizes a text and divides it into words, which no merge crosses."""
        return _WORD.findall(self._processor.normalize(clean_line(text)))

    def ids(
        self, words: list[str], dropout: float, draw: Callable[[], float]
    ) -> np.ndarray:
        """Returns the ids of some words, by algorithm 1 of the paper.

        Args:
            words: What `words` returned.
            dropout: Probability that a merge is passed over.
            draw: Returns a random number from 0 to below 1.

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
                # As SentencePiece has it, unknown characters in a row are one token.
                if found != self._unknown or ids[-1:] != [self._unknown]:
                    ids.append(found)
        return np.array(ids, np.int32)
