"""Tests of the whole model: the paper's equations, masking, and Keras's API."""

import sys

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf

import t2t_keras
from t2t_keras import Transformer
from t2t_keras.training.losses import LabelSmoothedCrossEntropy

AUTOREGRESSIONS = ("self_attention", "ssru")
SMALL = {"num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
SOURCE = np.array([[5, 6, 7, 2, 0, 0], [8, 9, 4, 5, 6, 2]], np.int32)
TARGET = np.array([[1, 9, 8, 0, 0], [1, 5, 6, 7, 4]], np.int32)


def inputs(source=SOURCE, target=TARGET):
    return {"source": source, "target": target}


@pytest.mark.parametrize("autoregression", AUTOREGRESSIONS)
@pytest.mark.parametrize("pre_norm", [False, True])
def test_model_matches_the_papers_equations(pre_norm, autoregression):
    model = Transformer(
        source_vocab_size=12,
        **SMALL,
        pre_norm=pre_norm,
        decoder_autoregression=autoregression,
    )
    expected = reference.transformer(
        reference.weights_of(model), SOURCE, TARGET, 2, 4, 4, 4, pre_norm
    )
    np.testing.assert_allclose(model(inputs()), expected, atol=1e-5)


def test_call_is_decode_of_encode():
    model = Transformer(source_vocab_size=12, **SMALL)
    memory = model.encode(SOURCE)
    logits = model.decode(TARGET, memory, t2t_keras.padding_mask(SOURCE))
    np.testing.assert_allclose(model(inputs()), logits, atol=1e-6)


@pytest.mark.parametrize("autoregression", AUTOREGRESSIONS)
def test_step_by_step_decoding_matches_full_decoding(autoregression):
    model = Transformer(
        source_vocab_size=12, **SMALL, decoder_autoregression=autoregression
    )
    mask = t2t_keras.padding_mask(SOURCE)
    expected = model(inputs())
    cache = model.empty_cache(model.encode(SOURCE))
    for step in range(TARGET.shape[1]):
        result = model.decode(
            TARGET[:, step : step + 1],
            None,
            mask,
            self_attention_mask=tf.ones([1, 1, 1, step + 1], tf.bool),
            positions=tf.constant([step]),
            cache=cache,
        )
        cache = result.cache
        np.testing.assert_allclose(result.logits[:, 0], expected[:, step], atol=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"position": "sinusoidal_marian"},
        {"position": "learned"},
        {"decoder_autoregression": "ssru"},
    ],
)
def test_decoding_in_parts_continues_positions_and_causal_mask(arguments):
    model = Transformer(source_vocab_size=12, **SMALL, **arguments)
    mask = t2t_keras.padding_mask(SOURCE)
    expected = model(inputs())
    cache = model.empty_cache(model.encode(SOURCE))
    for part in (slice(0, 2), slice(2, 2), slice(2, 5)):
        result = model.decode(TARGET[:, part], None, mask, cache=cache)
        cache = result.cache
        np.testing.assert_allclose(result.logits, expected[:, part], atol=1e-5)
    np.testing.assert_array_equal(cache.positions[:, 0], [range(5)] * 2)


@pytest.mark.parametrize("autoregression", AUTOREGRESSIONS)
def test_output_depends_on_visible_positions_only(autoregression):
    model = Transformer(
        source_vocab_size=12, **SMALL, decoder_autoregression=autoregression
    )
    logits = model(inputs()).numpy()
    for position in range(1, 5):
        changed = TARGET.copy()
        changed[1, position] = 11
        other = model(inputs(target=changed)).numpy()
        np.testing.assert_array_equal(other[1, :position], logits[1, :position])
        assert np.abs(other[1, position:] - logits[1, position:]).max(-1).all()
        np.testing.assert_array_equal(other[0], logits[0])
    # More padding at the end of the source changes nothing.
    wider = np.pad(SOURCE, [[0, 0], [0, 3]])
    np.testing.assert_allclose(model(inputs(wider)), logits, atol=1e-5)
    # Encoder outputs at padding positions do not affect the logits.
    memory = model.encode(SOURCE).numpy()
    noisy = memory.copy()
    noisy[0, 4:] += 100
    mask = t2t_keras.padding_mask(SOURCE)
    np.testing.assert_array_equal(
        model.decode(TARGET, noisy, mask), model.decode(TARGET, memory, mask)
    )
    for position in range(4):
        changed = SOURCE.copy()
        changed[0, position] = 11
        assert np.abs(model(inputs(changed)).numpy()[0] - logits[0]).max(-1).all()


def test_attention_scores_of_every_layer_and_head_are_returned():
    model = Transformer(source_vocab_size=12, **SMALL, num_decoder_layers=1)
    logits, scores = model(inputs(), return_attention_scores=True)
    np.testing.assert_allclose(model(inputs()), logits, atol=1e-6)
    assert [s.shape for s in scores["encoder"]] == [(2, 4, 6, 6)] * 2
    assert [s.shape for s in scores["decoder"]] == [(2, 4, 5, 5)]
    assert [s.shape for s in scores["cross"]] == [(2, 4, 5, 6)]
    assert np.triu(scores["decoder"][0][1, 0], 1).max() == 0
    assert scores["cross"][0].numpy()[0, :, :, 4:].max() == 0


def test_ssru_decoder_has_no_self_attention_scores():
    model = Transformer(source_vocab_size=12, **SMALL, decoder_autoregression="ssru")
    logits, scores = model(inputs(), return_attention_scores=True)
    np.testing.assert_allclose(model(inputs()), logits, atol=1e-6)
    assert scores["decoder"] == []
    assert [s.shape for s in scores["encoder"]] == [(2, 4, 6, 6)] * 2
    assert [s.shape for s in scores["cross"]] == [(2, 4, 5, 6)] * 2
    symbolic = {
        name: keras.Input((None,), dtype="int32", name=name) for name in inputs()
    }
    functional = keras.Model(symbolic, model(symbolic, return_attention_scores=True)[1])
    np.testing.assert_allclose(
        functional(inputs())["cross"][1], scores["cross"][1], atol=1e-6
    )


def test_save_and_load_keep_the_outputs(tmp_path):
    model = Transformer(
        source_vocab_size=12,
        target_vocab_size=14,
        share_embeddings=False,
        position="learned",
        **SMALL,
    )
    model.save(tmp_path / "x.keras")
    loaded = keras.saving.load_model(tmp_path / "x.keras")
    np.testing.assert_array_equal(model(inputs()), loaded(inputs()))
    assert loaded.get_config() == model.get_config()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"share_embeddings": False, "position": "learned", "dtype": "mixed_bfloat16"},
        {"decoder_autoregression": "ssru"},
        {"tie_output": False, "logits_bias": True, "position": "sinusoidal_marian"},
    ],
)
def test_keras_export_of_an_uncalled_model_gives_the_same_logits(arguments, tmp_path):
    model = Transformer(source_vocab_size=12, **SMALL, **arguments)
    model.export(tmp_path / "exported", verbose=False)
    expected = tf.cast(model(inputs()), tf.float32)
    loaded = tf.saved_model.load(tmp_path / "exported")
    served = loaded.serve(inputs())
    np.testing.assert_allclose(tf.cast(served, tf.float32), expected, atol=1e-6)
    # Loaded as TensorFlow Serving does.
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        graph = tf.compat.v1.saved_model.loader.load(
            session, ["serve"], str(tmp_path / "exported")
        )
        signature = graph.signature_def["serving_default"]
        feed = {signature.inputs[name].name: ids for name, ids in inputs().items()}
        served = session.run(signature.outputs["output_0"].name, feed)
    np.testing.assert_allclose(served.astype(np.float32), expected, atol=1e-6)


def test_summary_shows_the_output_shape_of_every_layer():
    for share in (True, False):
        model = Transformer(
            source_vocab_size=12, **SMALL, pre_norm=True, share_embeddings=share
        )
        lines = []
        model.summary(expand_nested=True, line_length=100, print_fn=lines.append)
        rows = [line for line in "\n".join(lines).splitlines() if "(None" in line]
        # Embeddings, positions, dropouts, encoder, decoder, and the layers of both.
        assert len(rows) == 6 + (1 if share else 2) + 4
        assert all("(None, None, 16)" in row for row in rows)
        assert "?" not in "".join(lines)
    model = Transformer(source_vocab_size=12, **SMALL, logits_bias=True)
    lines = []
    model.summary(line_length=100, print_fn=lines.append)
    text = "\n".join(lines)
    assert "(None, None, 12)" in text
    assert "?" not in text


def test_compute_output_shape_and_symbolic_calls_give_the_shapes():
    model = Transformer(
        source_vocab_size=12, target_vocab_size=14, share_embeddings=False, **SMALL
    )
    shapes = {name: ids.shape for name, ids in inputs().items()}
    assert model.compute_output_shape(shapes) == model(inputs()).shape == (2, 5, 14)
    symbolic = {
        name: keras.Input((None,), dtype="int32", name=name) for name in inputs()
    }
    logits, scores = model(symbolic, return_attention_scores=True)
    assert logits.shape == (None, None, 14)
    assert [s.shape for s in scores["cross"]] == [(None, 4, None, None)] * 2
    functional = keras.Model(symbolic, scores["cross"])
    np.testing.assert_allclose(
        functional(inputs())[1],
        model(inputs(), return_attention_scores=True)[1]["cross"][1],
        atol=1e-6,
    )


def test_compile_and_fit_learn_on_one_device():
    model = Transformer(source_vocab_size=12, **SMALL, dropout=0.0)
    model.compile(
        optimizer=keras.optimizers.Adam(0.01), loss=LabelSmoothedCrossEntropy(0.1)
    )
    labels = np.array([[9, 8, 2, 0, 0], [5, 6, 7, 4, 2]], np.int32)
    dataset = tf.data.Dataset.from_tensors((inputs(), labels)).repeat(30)
    history = model.fit(dataset, epochs=2, steps_per_epoch=15, verbose=0)
    assert history.history["loss"][-1] < 1.0 < history.history["loss"][0]
    predicted = np.argmax(model.predict(inputs(), verbose=0), -1)
    np.testing.assert_array_equal(predicted[1], labels[1])


def test_bfloat16_is_close_to_float32():
    full = Transformer(source_vocab_size=12, **SMALL)
    half = Transformer(source_vocab_size=12, **SMALL, dtype="mixed_bfloat16")
    assert {v.dtype for v in half.trainable_weights} == {"float32"}
    assert half(inputs()).dtype == tf.bfloat16
    np.testing.assert_allclose(
        tf.cast(half(inputs()), tf.float32), full(inputs()), atol=0.15
    )


@pytest.mark.parametrize(
    ("sizes", "millions"),
    [({}, 63.0), ({"d_model": 1024, "d_ff": 4096, "num_heads": 16}, 214.2)],
)
def test_base_and_big_have_expected_number_of_parameters(sizes, millions):
    # A graph holds no weights, which would occupy 857 MB.
    with tf.Graph().as_default():
        model = Transformer(source_vocab_size=37_000, **sizes)
    trainable = sum(int(np.prod(v.shape)) for v in model.trainable_weights)
    assert round(trainable / 1e6, 1) == millions


def test_equal_seeds_give_equal_weights():
    one, same, other = (
        Transformer(source_vocab_size=12, **SMALL, seed=seed) for seed in (1, 1, 2)
    )
    for a, b in zip(one.trainable_weights, same.trainable_weights, strict=True):
        np.testing.assert_array_equal(a, b)
    kernels = [v.numpy() for v in one.trainable_weights if len(v.shape) == 2]
    same_shape = [k for k in kernels if k.shape == kernels[1].shape]
    assert len({k.tobytes() for k in same_shape}) == len(same_shape) > 1
    assert not np.array_equal(one.weights[0], other.weights[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"position": "relative"}, "position must be one of.*'relative'"),
        ({"target_vocab_size": 9}, "source_vocab_size=12, target_vocab_size=9"),
        ({"num_heads": 3}, "num_heads=3"),
        ({"dropout": 1.5}, "dropout must be a number from 0 to 1.*1.5"),
    ],
)
def test_invalid_arguments_are_rejected_with_a_reason(arguments, message):
    with pytest.raises(ValueError, match=message):
        Transformer(source_vocab_size=12, **{**SMALL, **arguments})


def test_every_public_name_can_be_imported():
    for name in t2t_keras.__all__:
        assert getattr(t2t_keras, name).__doc__


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
