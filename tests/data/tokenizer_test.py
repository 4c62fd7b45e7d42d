"""Tests of the subword tokenizers."""

import itertools
import json
import random
import sys
import unicodedata

import pytest
import sentencepiece
import tensorflow as tf

from t2t_keras.data.cldr import generate_pairs
from t2t_keras.data.subwords import WordPieceTokenizer
from t2t_keras.data.text_normalization import NORMALIZATIONS
from t2t_keras.data.tokenizer_pair import TOKENIZERS, TokenizerPair

KINDS = ["bpe", "unigram", "wordpiece"]
PAIRS = list(itertools.islice(generate_pairs("en", "de"), 600))
WORDS = [("hello world", "hallo Welt"), ("a small world", "eine kleine Welt")] * 20


@pytest.fixture(scope="module")
def shared():
    """Trains a shared vocabulary of each type once, since WordPiece trains slowly."""
    cache = {}

    def get(kind):
        if kind not in cache:
            pairs = PAIRS[:60] if kind == "wordpiece" else PAIRS
            size = 150 if kind == "wordpiece" else 400
            cache[kind] = TokenizerPair.train(pairs, kind, size, True)
        return cache[kind]

    return get


def tokenize(tokenizer, texts):
    return tokenizer.tokenize(tf.constant(texts)).to_list()


def detokenize(tokenizer, rows):
    ids = tf.ragged.constant(rows, tf.int32)
    return [text.decode() for text in tokenizer.detokenize(ids).numpy()]


def tokens(tokenizer, text):
    pieces = tokenizer.pieces()
    return [pieces[i] for i in tokenize(tokenizer, [text])[0]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("bpe", ["▁hello", "▁world"]),
        ("wordpiece", ["hello", "world"]),
    ],
)
def test_frequent_words_become_one_token(kind, expected):
    pair = TokenizerPair.train(WORDS * 20, kind, 120, True)
    assert tokens(pair.source, "hello world") == expected


def test_rare_words_yield_word_pieces():
    rare = [(f"w{chr(97 + n % 26)}{chr(97 + n // 26)} x", "x") for n in range(400)]
    pair = TokenizerPair.train(rare, "wordpiece", 500, False)
    assert pair.source.vocab_size > 400


@pytest.mark.parametrize(
    ("normalization", "fingerprint"),
    # Found by release 0.1.0, which learned them through keras-nlp.
    [("nmt_nfkc", "e79eb8b19c882d1a"), ("identity", "416b4c70fd9b73dd")],
)
def test_wordpiece_vocabulary_is_that_of_release_0_1_0(normalization, fingerprint):
    rng = random.Random(0)
    words = [
        "".join(rng.choice("abcdeäöß") for _ in range(rng.randint(1, 8)))
        for _ in range(120)
    ]
    weights = range(1, 121)
    lines = [" ".join(rng.choices(words, weights=weights, k=6)) for _ in range(400)]
    tokenizer = WordPieceTokenizer.train(lines, 150, normalization)
    assert tokenizer.vocab_size == 118
    assert tokenizer.fingerprint == fingerprint


def test_each_subword_type_uses_its_own_algorithm(shared):
    scores = {}
    for kind in ("bpe", "unigram"):
        model = sentencepiece.SentencePieceProcessor(
            model_proto=shared(kind).source.model
        )
        scores[kind] = [model.get_score(i) for i in range(4, model.vocab_size())]
    # BPE scores are ranks of merges; unigram scores are log-probabilities.
    assert scores["bpe"] == [-float(i) for i in range(396)]
    assert not all(score.is_integer() for score in scores["unigram"])
    assert any(piece.startswith("##") for piece in shared("wordpiece").source.pieces())
    assert set(TOKENIZERS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_vocabulary_starts_with_the_special_tokens(shared, kind):
    pieces = shared(kind).source.pieces()
    assert pieces[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    # Figures show the pieces, and XML cannot contain control characters.
    assert min(map(min, pieces)) >= " "
    assert len(pieces) == len(set(pieces)) == shared(kind).source.vocab_size
    assert len(pieces) == 400 or kind == "wordpiece"


@pytest.mark.parametrize("kind", KINDS)
def test_detokenize_inverts_tokenize(shared, kind):
    known = PAIRS[:60] if kind == "wordpiece" else PAIRS
    texts = [text for pair in known for text in pair]
    tokenizer = shared(kind).source
    rows = tokenize(tokenizer, texts)
    # Both libraries normalize, so "m²" becomes "m2".
    normal = [unicodedata.normalize("NFKC", text) for text in texts]
    assert detokenize(tokenizer, rows) == normal
    assert max(map(max, rows)) < tokenizer.vocab_size
    assert min(map(min, rows)) > 3


# Characters that NFKC replaces: full-width signs, superscripts, ellipses, sara am ...
COMPATIBLE = "你好\uff0c\uff08世界\uff09\uff01 \uff11\uff12 m² … น้ำ ½ \uff5e ª"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [True, False])
def test_each_side_has_its_own_normalization(tmp_path, kind, share):
    names = {"source": "nfkc_cf", "target": "identity"}
    source = "\uff21B e\u0301… "
    pairs = [(source, COMPATIBLE), ("ab", "xy")] * 30
    pair = TokenizerPair.train(pairs, kind, 90, share, *names.values())
    pair.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    for tokenizers in (pair, loaded):
        assert tokenizers.normalization == names
        assert tokenizers.shared is share
        for side, text, expected in (
            ("source", source, "ab \u00e9..."),
            ("target", COMPATIBLE, COMPATIBLE),
        ):
            tokenizer = getattr(tokenizers, side)
            (row,) = tokenize(tokenizer, [text])
            assert 3 not in row
            assert detokenize(tokenizer, [row]) == [expected]
    assert loaded.fingerprint == pair.fingerprint
    # A shared vocabulary has the same ids on both sides.
    assert (pair.source.pieces() == pair.target.pieces()) is share


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_normalization_matches_its_name_and_collapses_white_space(kind, name):
    text = " xy\u3000\u00a0\t\uff0c 1\u00b2\u2002Ab  "
    expected = {
        "identity": "xy \uff0c 1\u00b2 Ab",
        "nfkc": "xy , 12 Ab",
        "nmt_nfkc": "xy , 12 Ab",
        "nfkc_cf": "xy , 12 ab",
        "nmt_nfkc_cf": "xy , 12 ab",
    }[name]
    learned = TOKENIZERS[kind].train([text] * 60, 40, name)
    derived = TOKENIZERS[kind].train([text, expected] * 60, 40).with_normalization(name)
    assert derived.normalization == learned.normalization == name
    assert detokenize(learned, tokenize(learned, [text])) == [expected]
    if name.endswith("nfkc"):  # `derived` knows the characters of these.
        assert detokenize(derived, tokenize(derived, [text])) == [expected]
    seen = detokenize(learned, tokenize(learned, ["x\u200by"]))
    assert (seen == ["x y"]) is name.startswith("nmt_")


def test_tokenizers_of_older_versions_keep_their_normalization(tmp_path):
    for kind, normalization in (("bpe", "nmt_nfkc"), ("wordpiece", "nfkc")):
        tokenizer = TOKENIZERS[kind].train(["ab 12 …"] * 20, 30, normalization)
        (tmp_path / "shared.model").write_bytes(tokenizer.model)
        index = {"subword": kind, "shared": True}
        (tmp_path / "tokenizer.json").write_text(json.dumps(index))
        if kind == "wordpiece":
            assert tokenizer.model.startswith(b"\x01pad\n\x01bos\n")
        pair = TokenizerPair.load(tmp_path)
        assert pair.source is pair.target
        assert pair.source.normalization == normalization
        assert detokenize(pair.target, tokenize(pair.target, ["\uff11\uff12…"])) == [
            "12..."
        ]


def test_unknown_normalization_is_rejected():
    with pytest.raises(ValueError, match=r"identity\. Received: 'nfc'"):
        TokenizerPair.train(WORDS, "bpe", 80, True, "nmt_nfkc", "nfc")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_ids_match_the_sentencepiece_package(shared, kind):
    tokenizer = shared(kind).source
    texts = [text for pair in PAIRS for text in pair]
    texts += [
        "",
        "   ",
        " two  spaces ",
        "a\ttab",
        "no\u00a0break and\u2028separator",
        "\ufb01ne \u00bd \uff21\uff22 e\u0301",
        "\U0001f600 Ελληνικά 日本語",
        "<s> </s> <pad> <unk> ▁",
        "word " * 3_000,
    ]
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    rows = tokenize(tokenizer, texts)
    assert rows == model.encode(texts)
    assert detokenize(tokenizer, rows) == model.decode(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_looks_like_a_special_token_is_tokenized_as_text(shared, kind):
    texts = ["<s> a </s>", "<pad>", "[BOS] a [EOS]", "[PAD]", "[EOS]"]
    # Padding inside a sentence would be masked, and EOS would cut the sentence off.
    for text, row in zip(texts, tokenize(shared(kind).source, texts), strict=True):
        assert row, text
        assert not {0, 1, 2} & set(row), text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "space", ["\x00", "\t", "\r", "  ", " \x0b\x1c ", "\x00\x7f", "\u00a0", "\u2028"]
)
def test_control_characters_and_unusual_spaces_separate_words(shared, kind, space):
    tokenizer = shared(kind).source
    plain, odd, at_the_end = tokenize(
        tokenizer, ["10 hours", f"10{space}hours", f"10 hours{space}"]
    )
    assert plain == odd == at_the_end


@pytest.mark.parametrize("kind", KINDS)
def test_empty_text_has_no_tokens(shared, kind):
    tokenizer = shared(kind).source
    rows = tokenize(tokenizer, ["", "  ", "\t\x00", "in"])
    assert rows[:3] == [[], [], []]
    assert rows[3]
    assert detokenize(tokenizer, [[], rows[3]]) == ["", "in"]


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_characters_map_to_the_unknown_token(shared, kind):
    (row,) = tokenize(shared(kind).source, ["\u65e5"])
    assert row[-1] == 3


@pytest.mark.parametrize("kind", KINDS)
def test_very_long_words_round_trip(shared, kind):
    # Japanese and Chinese sentences have no spaces.
    words = ["hours" * 30, "hours" * 2_000]
    rows = tokenize(shared(kind).source, words)
    assert 3 not in rows[0] + rows[1]
    assert detokenize(shared(kind).source, rows) == words


@pytest.mark.parametrize("kind", KINDS)
def test_vocabularies_are_shared_or_separate(kind):
    def train(share):
        return TokenizerPair.train(WORDS, kind, 80, share)

    def knows(tokenizer, text):
        return 3 not in tokenize(tokenizer, [text])[0]

    one, two = train(True), train(False)
    assert one.shared
    assert one.source is one.target
    assert knows(one.source, "world")
    assert knows(one.source, "Welt")
    assert not two.shared
    assert knows(two.source, "world")
    assert knows(two.target, "Welt")
    # None of the English sentences has a W, and none of the German ones an s.
    assert not knows(two.source, "Welt")
    assert not knows(two.target, "small")
    # The fingerprint depends only on text, subword type and size.
    assert len({one.fingerprint, two.fingerprint}) == 2
    assert train(True).fingerprint == one.fingerprint
    assert train(False).fingerprint == two.fingerprint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [True, False])
def test_load_restores_saved_tokenizers(tmp_path, kind, share):
    pair = TokenizerPair.train(WORDS, kind, 80, share)
    pair.save(tmp_path / "tokenizer")
    loaded = TokenizerPair.load(tmp_path / "tokenizer")
    assert loaded.shared == share
    assert loaded.fingerprint == pair.fingerprint
    assert type(loaded.source) is type(pair.source) is TOKENIZERS[kind]
    for side, text in (("source", "a small world"), ("target", "hallo kleine Welt")):
        before, after = getattr(pair, side), getattr(loaded, side)
        assert after.pieces() == before.pieces()
        assert tokenize(after, [text]) == tokenize(before, [text])
        assert detokenize(after, tokenize(after, [text])) == [text]


def test_directory_without_tokenizer_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} holds no tokenizer"):
        TokenizerPair.load(tmp_path)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_small_text_yields_a_smaller_vocabulary(kind):
    pair = TokenizerPair.train(WORDS, kind, 37_000, True)
    assert 20 < pair.source.vocab_size < 200
    assert detokenize(pair.source, tokenize(pair.source, ["hello Welt"])) == [
        "hello Welt"
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_vocabulary_too_small_for_the_characters_is_rejected(kind):
    with pytest.raises(ValueError, match=r"vocabulary of 10 tokens .* --vocab_size"):
        TokenizerPair.train(WORDS, kind, 10, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pairs", [[], [("", " ")] * 3])
def test_empty_training_text_is_rejected(kind, pairs):
    with pytest.raises(ValueError, match=r"vocabulary (of 100 tokens )?can be learned"):
        TokenizerPair.train(pairs, kind, 100, True)


@pytest.mark.parametrize("kind", KINDS)
def test_training_accepts_unusual_text(kind):
    odd = [
        ("", ""),
        ("nul\x00tab\tend\r", "\u2028"),
        ("word " * 10_000, "\ufeff \x85 \x0c"),
        ("<pad> </s> [PAD]", "▁ ## ##a"),
    ]
    pair = TokenizerPair.train(WORDS * 3 + odd, kind, 100, True)
    assert detokenize(pair.source, tokenize(pair.source, ["hello"])) == ["hello"]
    assert not any(set("\x00\t\r\n") & set(piece) for piece in pair.source.pieces())


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_the_corpus_are_raised_unchanged(kind):
    def pairs():
        yield from WORDS
        raise ValueError("train.en:41: this line has no counterpart")

    with pytest.raises(
        ValueError, match=r"^train.en:41: this line has no counterpart$"
    ):
        TokenizerPair.train(pairs(), kind, 100, True)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
