"""Tokenization of large text, word by word, on any number of processes.

The tokenizers of the graph split a sentence into the same tokens, but load TensorFlow
and split every occurrence of a word again. Here, each word is split once if the tokens
of a sentence are those of its words.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.data.word_counts import clean_line, split_lines

_MAX_CACHED = 1 << 20
"""Maximum number of words whose tokens are kept in memory."""

_Encode = Callable[[Sequence[str]], Iterable[list[int]]]

_SPACE = "\u2581"
_CHUNK_SENTENCES = 1024


class EncodedLines(NamedTuple):
    """Token ids of some sentences.

    Attributes:
        ids: `[n]` token ids of each sentence, each as consecutive varints, which is the
            form that protocol buffers store.
        lengths: `[n]` int64, number of tokens of each sentence.
    """

    ids: list[bytes]
    lengths: np.ndarray

    def take(self, indices: np.ndarray) -> "EncodedLines":
        """Returns the sentences at some indices, `[k]` integer."""
        return EncodedLines(
            [self.ids[i] for i in indices.tolist()], self.lengths[indices]
        )


class LineEncoder:
    """Splits sentences into tokens.

    Args:
        subword: Type of subwords, a key of `TOKENIZERS`.
        model: Serialized model of the tokenizer.
    """

    def __init__(self, subword: str, model: bytes) -> None:
        encode, is_by_word = _encoder(subword, model)
        self._is_by_word = is_by_word
        self._encode = encode
        self._words = _WordCache(encode)

    def __call__(self, lines: Sequence[str]) -> EncodedLines:
        """Tokenizes sentences.

        Args:
            lines: `[n]` sentences.
        """
        # SentencePiece writes spaces as this character, and does not tell them apart.
        if self._is_by_word and not any(_SPACE in line for line in lines):
            if len(self._words) > _MAX_CACHED:
                self._words.clear()
            find = self._words.__getitem__
            ids = [b"".join(map(find, words)) for words in split_lines(lines)]
        else:
            cleaned = [clean_line(line) for line in lines]
            ids = [varints(found) for found in self._encode(cleaned)]
        return EncodedLines(ids, count_varints(ids))


class _WordCache(dict[str, bytes]):
    """The token ids of the words seen so far, as varints."""

    def __init__(self, encode: _Encode) -> None:
        super().__init__()
        self._encode = encode

    def __missing__(self, word: str) -> bytes:
        (ids,) = self._encode([word])
        self[word] = found = varints(ids)
        return found


def varints(ids: Sequence[int]) -> bytes:
    """Returns token ids as varints: 7 bits per byte, the lowest first."""
    encoded = bytearray()
    for number in ids:
        while number > 127:
            encoded.append(number & 127 | 128)
            number >>= 7
        encoded.append(number)
    return bytes(encoded)


def count_varints(encoded: Sequence[bytes]) -> np.ndarray:
    """Returns the number of varints in each string.

    Args:
        encoded: `[n]` consecutive varints.

    Returns:
        `[n]` int64.
    """
    last_bytes = np.frombuffer(b"".join(encoded), np.uint8) < 128
    total = np.concatenate([[0], np.cumsum(last_bytes)])
    ends = np.cumsum([len(one) for one in encoded], dtype=np.int64)
    return np.diff(total[ends], prepend=0)


def _encoder(subword: str, model: bytes) -> tuple[_Encode, bool]:
    """Returns a function that tokenizes text, and whether it needs no context.

    Args:
        subword: Type of subwords.
        model: Serialized model.

    Returns:
        A function from `[n]` strings to `[n, (tokens)]` ids, and whether the tokens of
        a sentence are those of its words.
    """
    # The versions of SentencePiece in tensorflow-text and in Python choose differently
    # between unigram segmentations of the same probability.
    if subword == "bpe":
        import sentencepiece
        from sentencepiece import sentencepiece_model_pb2

        # Loading a model without normalization rules logs a line.
        sentencepiece.set_min_log_level(2)
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)
        if all(piece.type != proto.SentencePiece.UNUSED for piece in proto.pieces):
            processor = sentencepiece.SentencePieceProcessor(model_proto=model)
            # `encode` of a list starts threads, which take longer than a word does.
            return lambda lines: map(processor.encode, lines), _is_by_word(proto)
    return _graph_encoder(subword, model), subword == "wordpiece"


def _is_by_word(proto: Any) -> bool:
    """Returns whether no piece of a SentencePiece vocabulary crosses a space."""
    rules = proto.normalizer_spec
    pieces = {piece.piece for piece in proto.pieces}
    return (
        rules.add_dummy_prefix
        and rules.remove_extra_whitespaces
        and rules.escape_whitespaces
        and not proto.trainer_spec.treat_whitespace_as_suffix
        # Otherwise consecutive unknown words would be one unknown token.
        and _SPACE in pieces
        and not any(_SPACE in piece[1:] for piece in pieces)
    )


def _graph_encoder(subword: str, model: bytes) -> _Encode:
    """Returns the tokenizer of the graph as a function of strings."""
    import tensorflow as tf

    from t2t_keras.data.tokenizer_pair import TOKENIZERS

    tokenizer = TOKENIZERS[subword](model)

    def encode(lines: Sequence[str]) -> Iterator[list[int]]:
        for start in range(0, len(lines), _CHUNK_SENTENCES):
            ids = tokenizer.tokenize(
                tf.constant(lines[start : start + _CHUNK_SENTENCES])
            )
            yield from ids.to_list()

    return encode
