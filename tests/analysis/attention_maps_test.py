"""Tests of recorded attention and of its plots."""

import sys

import exported
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.analysis.attention_maps import KINDS, MAX_TOKENS, attention_maps
from t2t_keras.analysis.attention_plot import draw_heat_maps, draw_lines, head_colours
from t2t_keras.special_tokens import BOS_ID, EOS_ID

SOURCE, TARGET = "the 3 a dog 4", "no 12"


@pytest.fixture(scope="module")
def toy():
    return exported.toy(num_decoder_layers=3, d_k=5, d_v=7)


@pytest.fixture(scope="module")
def maps(toy):
    return attention_maps(*toy, SOURCE, TARGET)


def ids(tokenizers, text):
    return tokenizers.source.tokenize(tf.constant([text])).to_list()[0]


def test_weights_match_the_attention_scores_of_the_model(toy, maps):
    model, tokenizers = toy
    inputs = {
        "source": tf.constant([[*ids(tokenizers, SOURCE), EOS_ID]]),
        "target": tf.constant([[BOS_ID, *ids(tokenizers, TARGET)]]),
    }
    _, weights = model(inputs, return_attention_scores=True)
    assert [(m.kind, m.layer) for m in maps] == [
        (kind, layer) for kind in KINDS for layer in range(len(weights[kind]))
    ]
    for attention in maps:
        expected = weights[attention.kind][attention.layer][0].numpy()
        np.testing.assert_allclose(attention.weights, expected, atol=1e-6)


def test_weights_follow_from_queries_and_keys(maps):
    for attention in maps:
        assert attention.query.shape[-1] == attention.key.shape[-1] == 5
        assert attention.value.shape[-1] == 7
        scores = np.einsum("hqd,hkd->hqk", attention.query, attention.key) / 5**0.5
        if attention.kind == "decoder":
            visible = np.tril(np.ones(scores.shape[1:], bool))
            scores = np.where(visible, scores, -np.inf)
        powers = np.exp(scores)
        expected = powers / powers.sum(-1, keepdims=True)
        np.testing.assert_allclose(attention.weights, expected, atol=1e-5)


def test_tokens_name_rows_and_columns(toy, maps):
    source_tokens = [toy[1].source.pieces()[i] for i in ids(toy[1], SOURCE)]
    target_tokens = [toy[1].source.pieces()[i] for i in ids(toy[1], TARGET)]
    tokens = {m.kind: (m.query_tokens, m.key_tokens) for m in maps}
    assert tokens["encoder"] == ([*source_tokens, "</s>"], [*source_tokens, "</s>"])
    assert tokens["decoder"] == (["<s>", *target_tokens], ["<s>", *target_tokens])
    assert tokens["cross"] == (["<s>", *target_tokens], [*source_tokens, "</s>"])


def test_recording_leaves_the_model_unchanged(toy, maps):
    for layer in (*toy[0].encoder.layers, *toy[0].decoder.layers):
        assert "attend" not in vars(layer.self_attention)


@pytest.mark.parametrize(
    ("source", "target", "named"),
    [
        ("", TARGET, "The sentence must have 1 to"),
        (SOURCE, " ", "The translation must have 1 to"),
        ("no " * (MAX_TOKENS + 1), TARGET, "The sentence must have 1 to"),
    ],
)
def test_empty_and_too_long_sentences_are_rejected(toy, source, target, named):
    with pytest.raises(ValueError, match=named):
        attention_maps(*toy, source, target)


def test_ssru_decoder_has_maps_of_encoder_and_cross_attention_only():
    model, tokenizers = exported.toy(decoder_autoregression="ssru")
    maps = attention_maps(model, tokenizers, SOURCE, TARGET)
    kinds = [(attention.kind, attention.layer) for attention in maps]
    assert kinds == [("encoder", 0), ("encoder", 1), ("cross", 0), ("cross", 1)]


def test_dollar_signs_are_drawn_as_text(maps, tmp_path):
    strange = ["$$", r"$\frac$", "$^$"]
    attention = maps[0]._replace(
        query_tokens=[*strange, *maps[0].query_tokens[3:]],
        key_tokens=[*strange, *maps[0].key_tokens[3:]],
    )
    for draw in (draw_lines, draw_heat_maps):
        draw(attention, [tmp_path / "drawn.svg"])
        text = (tmp_path / "drawn.svg").read_text(encoding="utf-8")
        for word in strange:
            assert f">{word}<" in text


def test_plots_contain_every_head_and_word(maps, tmp_path):
    for number, attention in enumerate((maps[0], maps[-1])):
        for draw in (draw_lines, draw_heat_maps):
            svg, png = (
                tmp_path / f"{number}.{draw.__name__}.{e}" for e in ("svg", "png")
            )
            draw(attention, [svg, png])
            assert png.read_bytes().startswith(b"\x89PNG")
            text = svg.read_text(encoding="utf-8")
            for word in ("head 1", "head 2", "layer", "▁the", "&lt;/s&gt;"):
                assert word in text
            if draw is draw_lines:
                for colour in head_colours(2):
                    assert colour in text


@pytest.mark.parametrize("heads", [1, 4, 8, 16])
def test_heads_have_distinct_colours(heads):
    assert len(set(head_colours(heads))) == heads


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
