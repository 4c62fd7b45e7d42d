"""Translator: order of outputs, empty lines, streaming, invalid arguments."""

import dataclasses
import itertools
import queue
import sys

import pytest
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.data.subwords import SentencePieceTokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.length_penalty import length_penalty_of
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.translator import Translator

LINES = [f"{word} {number}" for number in range(40) for word in ("the", "a dog", "no")]


@pytest.fixture(scope="module")
def tokenizers():
    tokenizer = SentencePieceTokenizer.train(LINES, 40)
    return TokenizerPair(tokenizer, tokenizer)


@pytest.fixture(scope="module")
def model(tokenizers):
    return Transformer(
        source_vocab_size=tokenizers.source.vocab_size,
        num_layers=1,
        d_model=16,
        d_ff=16,
        num_heads=2,
    )


@pytest.fixture(scope="module")
def translator(model, tokenizers):
    return Translator(model, tokenizers, SearchOptions(beam_size=2, max_extra_length=3))


def test_output_has_the_order_of_the_input(translator):
    together = translator.translate(LINES[:20])
    for line, (translation,) in zip(LINES[:20], together, strict=True):
        ((alone,),) = translator.translate([line])
        assert alone.text == translation.text
        assert alone.score == pytest.approx(translation.score, abs=1e-4)
    assert len({best[0].text for best in together}) > 1


def test_concurrent_batches_do_not_change_results(model, tokenizers):
    options = SearchOptions(beam_size=2, max_extra_length=3)
    one, several = (
        Translator(model, tokenizers, options, 32, concurrent_batches=number)
        for number in (1, 4)
    )
    assert several.translate(LINES) == one.translate(LINES)


def test_empty_lines_have_empty_translations(translator):
    empty, full, blank = translator.translate(["", "the dog", " \t "])
    assert empty == [("", None, "empty")] == blank
    assert full[0].status == "ok"
    assert full[0].score < 0
    assert translator.translate([]) == []


def test_unusual_characters_are_translated(translator):
    lines = ["\x00\x01", "the\u2028dog", "\ufeffno", "🐕" * 50, "a\tdog"]
    results = translator.translate(lines)
    assert len(results) == 5
    assert "\n" not in "".join(best[0].text for best in results)


def test_line_of_ten_thousand_tokens_is_truncated_and_counted(model, tokenizers):
    translator = Translator(
        model, tokenizers, SearchOptions(1, max_extra_length=1), max_input_tokens=32
    )
    (result,) = translator.translate(["dog " * 10_000])
    (cut,) = translator.translate(["dog " * 10_000 + "no"])
    assert result == cut
    assert result[0].status == "too_long"
    assert translator.truncated == 2


def test_n_best_hypotheses_are_sorted_by_score(model, tokenizers):
    translator = Translator(model, tokenizers, SearchOptions(beam_size=4, n_best=3))
    for found in translator.translate(LINES[:5]):
        assert 1 <= len(found) <= 3
        scores = [hypothesis.score for hypothesis in found]
        assert scores == sorted(scores, reverse=True)


def test_stream_with_wait_translates_full_windows(translator, monkeypatch):
    sizes = []
    translate = translator.translate

    def recorded(sentences):
        sizes.append(len(sentences))
        return translate(sentences)

    monkeypatch.setattr(translator, "translate", recorded)
    found = list(translator.stream(iter(LINES[:25]), window=10, wait=True))
    assert sizes == [10, 10, 5]
    assert [best[0].text for best in found] == [
        best[0].text for best in translate(LINES[:25])
    ]


def test_slow_input_is_answered_line_by_line(translator):
    lines: queue.Queue = queue.Queue()
    stream = translator.stream(iter(lines.get, None))
    for line in LINES[:3]:
        lines.put(line)
        # The source blocks until it is answered: waiting for more lines would hang.
        assert next(stream) == translator.translate([line])[0]
    lines.put(None)
    assert list(stream) == []


def test_error_of_the_input_is_raised_after_earlier_translations(translator):
    def lines():
        yield "the dog"
        raise ValueError("x:2: invalid")

    stream = translator.stream(lines())
    assert next(stream)[0].score < 0
    with pytest.raises(ValueError, match="x:2"):
        next(stream)


@pytest.mark.parametrize(
    "arguments",
    [{"beam_size": 0}, {"length_penalty": -1}, {"n_best": 5}, {"max_extra_length": 0}],
)
def test_invalid_options_are_named(model, tokenizers, arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ValueError, match=rf"{name}.*{value}"):
        Translator(model, tokenizers, SearchOptions(**arguments))


def test_translations_start_with_forced_prefixes(translator):
    plain = translator.translate(LINES[:3])
    forced = translator.translate(LINES[:3], ["no dog", "", "the"])
    assert forced[0][0].text.startswith("no dog")
    assert forced[1] == plain[1]
    assert forced[2][0].text.startswith("the")
    with pytest.raises(ValueError, match="Received: 1 and 2"):
        translator.translate(LINES[:2], ["a"])


def test_samples_do_not_depend_on_the_batch(model, tokenizers):
    options = SearchOptions(4, n_best=4, sample=True, max_extra_length=5)

    def sampled(lines, batch_tokens, seed=0):
        chosen = dataclasses.replace(options, sample_seed=seed)
        found = Translator(model, tokenizers, chosen, batch_tokens).translate(lines)
        return [[hypothesis.text for hypothesis in row] for row in found]

    together, in_batches = sampled(LINES[:9], 2048), sampled(LINES[:9], 8)
    assert together == in_batches
    assert sampled(LINES[:9], 2048, seed=1) != together
    # The samples of a sentence differ.
    assert all(len(set(row)) > 1 for row in together)


def test_details_have_tokens_scores_and_alignment(model, tokenizers):
    translator = Translator(model, tokenizers, SearchOptions(1, length_penalty=0.0))
    lines = ["the dog 12", "", "no"]
    found = translator.translate(lines)
    details = translator.details(lines, [best[0].text for best in found])
    assert details[1] == ([], [], [])
    for line, (best,), detail in zip(lines, found, details, strict=True):
        if not line:
            continue
        assert "".join(detail.tokens).replace("\u2581", " ").strip() == best.text
        words = len(best.text.split())
        assert [target for _, target in detail.alignment] == list(range(words))
        assert {s for s, _ in detail.alignment} <= set(range(len(line.split())))
        # The end token has a score too.
        assert len(detail.token_scores) == len(detail.tokens) + 1
    given = translator.details(["the dog"], ["no dog"])[0]
    assert given.tokens[0].endswith("n") or given.tokens[0].startswith("\u2581")
    assert sum(given.token_scores) < 0
    with pytest.raises(ValueError, match="Received: 1 and 2"):
        translator.details(LINES[:2], ["a"])


def test_details_have_the_tokens_of_the_search(model, tokenizers):
    options = SearchOptions(beam_size=3, n_best=3, max_extra_length=6)
    translator = Translator(model, tokenizers, options)
    lines = [*LINES[:9], ""]
    in_detail = translator.translate_in_detail(lines)
    assert [[one for one, _ in row] for row in in_detail] == translator.translate(lines)
    assert in_detail[-1] == [(("", None, "empty"), ([], [], []))]
    pieces = tokenizers.target.pieces()
    retokenized_differently = 0
    for (text, score, _), details in itertools.chain(*in_detail[:-1]):
        tokens, token_scores, alignment = details
        ids = tf.ragged.constant([[pieces.index(token) for token in tokens]], tf.int32)
        assert tokenizers.target.detokenize(ids).numpy()[0].decode() == text
        penalty = float(length_penalty_of(len(token_scores), options.length_penalty))
        assert sum(token_scores) / penalty == pytest.approx(score, abs=1e-4)
        assert len(token_scores) - len(tokens) in (0, 1)
        words = tokenizers.target.words(tokens)[-1] + 1
        assert [target for _, target in alignment] == list(range(words))
        retokenized_differently += (
            tokenizers.target.tokenize([text]).to_list() != ids.to_list()
        )
    # Tokenizing some of the texts again gives other tokens.
    assert retokenized_differently > 0


def test_translation_of_an_empty_sentence_is_scored(translator):
    nothing, something, end = translator.score(["", "", "the"], ["", "the dog", ""])
    assert nothing == (([], [], []), "empty")
    assert something.status == "ok"
    assert sum(something.details.token_scores) < -1
    assert something.details.alignment == []
    assert len(end.details.token_scores) == 1
    # The source is then the end token alone.
    target = translator._text_search.tokenize_targets(tf.constant(["the dog"])).ids
    none = tf.ragged.constant([[]], tf.int32, row_splits_dtype=tf.int64)
    log_probs = translator._batched_search.score_batch(none, target).log_probs
    assert something.details.token_scores == pytest.approx(
        log_probs[0].numpy().tolist(), abs=1e-5
    )


def test_long_translations_and_prefixes_are_truncated(model, tokenizers):
    translator = Translator(
        model, tokenizers, SearchOptions(2, max_extra_length=4), max_input_tokens=20
    )
    long = "no dog " * 10_000
    first = tokenizers.target.tokenize([long]).to_list()[0][:20]
    for pair in ((long, "no"), ("the", long), (long, long)):
        (scored,) = translator.score(*([text] for text in pair))
        assert scored.status == "too_long"
        # A truncated translation has no end token.
        tokens = (
            20 if pair[1] == long else len(tokenizers.target.tokenize(["no"])[0]) + 1
        )
        assert len(scored.details.token_scores) == tokens
    whole, cut, empty = translator.translate_in_detail(
        ["the", "the", ""], ["no", long, long]
    )
    assert [row[0][0].status for row in (whole, cut, empty)] == [
        "ok",
        "too_long",
        "empty",
    ]
    pieces = tokenizers.target.pieces()
    assert cut[0][1].tokens[:20] == [pieces[i] for i in first]
    assert len(cut[0][1].tokens) <= 21
    assert translator.truncated == 1


def test_invalid_text_has_a_status(translator):
    lines = ["the dog", "the \udcffdog", "\ud800"]
    found = translator.translate(lines)
    assert found[0][0].status == "ok"
    assert found[1:] == [[("", None, "invalid_utf8")]] * 2
    by_prefix = translator.translate(["the dog", "the dog"], ["\udcff", "no"])
    assert [row[0].status for row in by_prefix] == ["invalid_utf8", "ok"]
    scored = translator.score(["the", "\udcff", "the"], ["\udcff", "the", "the"])
    assert [one.status for one in scored] == ["invalid_utf8", "invalid_utf8", "ok"]
    assert [len(one.details.tokens) > 0 for one in scored] == [False, False, True]


def test_unreachable_min_length_is_rejected(model, tokenizers):
    options = SearchOptions(1, min_length=36, max_extra_length=15)
    Translator(model, tokenizers, options, max_input_tokens=21)
    with pytest.raises(
        ValueError, match=r"min_length must be at most .*Received: min_length=36,"
    ):
        Translator(model, tokenizers, options, max_input_tokens=20)


def test_status_after_search_tells_broken_model_from_no_hypothesis(translator):
    status = tf.constant(["ok", "too_long", "ok", "ok"])
    scores = tf.constant([[-1.0, float("nan")], [-2.0, -3.0], [-1e9, -1e9]])
    scores = tf.concat([scores, [[float("nan")] * 2]], axis=0)
    outcome = (
        translator._text_search.status_after_search(status, scores).numpy().tolist()
    )
    assert outcome == [b"ok", b"too_long", b"not_found", b"model_error"]


def test_all_batches_share_one_trace(translator):
    search_batch = translator._batched_search.search_batch
    before = search_batch.experimental_get_tracing_count()
    translator.translate(LINES)
    assert search_batch.experimental_get_tracing_count() == before == 1
    assert tf.executing_eagerly()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
