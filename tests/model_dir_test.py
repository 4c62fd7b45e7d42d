"""Tests of model directories: files, configuration, locks, averages, loading."""

import shutil
import sys

import keras
import numpy as np
import pytest

from t2t_keras import Transformer, Translator
from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.preparation import prepare
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
from t2t_keras.model_dir import ModelDir
from t2t_keras.training.optimizer import Adam

TRAINING = TrainingConfig(batch_tokens=100, train_steps=10, average_last=2)


def prepare_pairs(directory, number):
    rows = [f"{i} and {i}\t{i} und {i}\n" for i in range(number)]
    (directory / f"{number}.tsv").write_text("".join(rows))
    corpus = TextCorpus("en", "de", {"train": [f"{directory}/{number}.tsv"]}, {})
    prepare(corpus, directory / f"data{number}", vocab_size=40, report=lambda _: None)
    return PreparedData(directory / f"data{number}")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepare_pairs(tmp_path_factory.mktemp("data"), 50)


@pytest.fixture
def config(data):
    return TransformerConfig(
        source_vocab_size=data.tokenizers.source.vocab_size,
        num_layers=1,
        d_model=8,
        d_ff=8,
        num_heads=2,
    )


@pytest.fixture
def model_dir(tmp_path, data, config):
    model_dir = ModelDir(tmp_path / "model")
    model_dir.initialize(config, TRAINING, data)
    return model_dir


def save(model_dir, config, step, value):
    model = Transformer(config)
    optimizer = Adam(0.1)
    optimizer.build(model.trainable_variables)
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, value))
    model_dir.checkpoints.save(
        step, model.variables, optimizer.variables, {}, {"val_nll": value}
    )
    return model


def test_translator_from_model_directory_saves_a_preset(model_dir, config, tmp_path):
    save(model_dir, config, 5, 0.5)
    with pytest.raises(
        UserError, match=r"must not be a model directory.*save_to_preset"
    ):
        Translator.from_preset(model_dir.path)
    opened = model_dir.translator()
    opened.save_to_preset(tmp_path / "preset")
    reopened = Translator.from_preset(tmp_path / "preset")
    lines = ["1 and 1", "7 and 7"]
    assert reopened.translate(lines) == opened.translate(lines)
    greedy = model_dir.translator("5", SearchOptions(beam_size=1))
    assert greedy.options == SearchOptions(beam_size=1)


def test_models_are_loaded_in_float32_whatever_keras_is_configured_with(
    model_dir, config
):
    save(model_dir, config, 5, 0.5)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        assert model_dir.load_model().dtype_policy.name == "float32"
    finally:
        keras.config.set_dtype_policy(before)


def test_open_translator_returns_the_loaded_models(model_dir, config):
    for step in (5, 6):
        save(model_dir, config, step, step / 10)
    translator, loaded = model_dir.open_translator(
        ["5", "latest"], dtype="mixed_bfloat16", max_input_tokens=9
    )
    assert [each.step for each in loaded] == [5, 6]
    assert translator.models == [each.model for each in loaded]
    assert {model.compute_dtype for model in translator.models} == {"bfloat16"}
    assert translator.max_input_tokens == 9
    in_training = Transformer(config)
    translator, loaded = model_dir.open_translator(model=in_training)
    assert translator.models == [in_training]
    assert not loaded


def test_only_settings_of_the_run_may_change(model_dir, data, config):
    model_dir.initialize(config, TRAINING.replace(train_steps=20), data)
    assert model_dir.config["run"]["train_steps"] == 20
    with pytest.raises(ValueError, match="d_ff is 8 there and 16 here"):
        model_dir.initialize(config.replace(d_ff=16), TRAINING, data)
    with pytest.raises(ValueError, match=r"learning_rate is 1\.0 there and 2\.0 here"):
        model_dir.initialize(config, TRAINING.replace(learning_rate=2.0), data)
    # Rejected configurations change nothing.
    assert model_dir.training_config.learning_rate == 1
    assert model_dir.config["run"]["train_steps"] == 20


def test_other_training_data_is_rejected(model_dir, data, config, tmp_path):
    other = prepare_pairs(tmp_path, 60)
    other.tokenizers = data.tokenizers
    other.manifest["vocabulary_fingerprint"] = data.tokenizers.fingerprint
    with pytest.raises(ValueError, match="holds other training data"):
        model_dir.initialize(config, TRAINING, other)


def test_damaged_config_is_named(model_dir):
    path = model_dir.path / "config.json"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        model_dir.load_model()


def test_directory_of_another_version_is_rejected(model_dir):
    path = model_dir.path / "config.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(ValueError, match=r"must be 2\. Received: 1\."):
        model_dir.load_model()


def test_average_is_used_until_training_continues(model_dir, config):
    with pytest.raises(ValueError, match="has no checkpoint yet"):
        model_dir.average(2)
    for step, value in ((1, 5.0), (2, 1.0), (3, 2.0)):
        save(model_dir, config, step, value)
    assert model_dir.weights_path().name == "weights-00000003.npz"
    assert model_dir.average(2) == [2, 3]
    assert model_dir.weights_path() == model_dir.averaged_path
    for weight in model_dir.load_model().trainable_variables:
        np.testing.assert_array_equal(weight, np.full(weight.shape, 1.5))
    assert model_dir.average(9) == [1, 2, 3]
    save(model_dir, config, 4, 7.0)
    assert model_dir.weights_path().name == "weights-00000004.npz"
    assert model_dir.weights_path("averaged") == model_dir.averaged_path
    assert model_dir.average(best=2) == [2, 3]
    for weight in model_dir.load_model().trainable_variables:
        np.testing.assert_array_equal(weight, np.full(weight.shape, 1.5))


def test_loaded_model_has_name_and_step_of_its_weights(model_dir, config, tmp_path):
    for step in (1, 2):
        save(model_dir, config, step, float(step))
    loaded = model_dir.load()
    # Later averaging and training do not affect the loaded model.
    model_dir.average(2)
    save(model_dir, config, 3, 3.0)
    assert loaded[1:] == ("weights-00000002.npz", 2)
    assert loaded.model.trainable_variables[0].numpy().max() == 2
    assert model_dir.load("averaged")[1:] == ("averaged.npz", 2)
    elsewhere = tmp_path / "copy.npz"
    shutil.copyfile(model_dir.averaged_path, elsewhere)
    assert model_dir.load(str(elsewhere))[1:] == (str(elsewhere), 2)


def test_ema_is_used_instead_of_the_newest_checkpoint(model_dir, config):
    model = save(model_dir, config, 3, 2.0)
    weights = {v.path: np.full(v.shape, 9.0) for v in model.variables}
    model_dir.save_ema(weights, 3)
    assert model_dir.weights_path() == model_dir.ema_path
    assert model_dir.load_model().trainable_variables[0].numpy().max() == 9
    model_dir.average(1)
    assert model_dir.weights_path() == model_dir.averaged_path
    assert model_dir.weights_path("ema") == model_dir.ema_path


def test_missing_outdated_or_damaged_ema_is_detected(model_dir, config):
    model = save(model_dir, config, 3, 2.0)
    weights = {v.path: v.numpy() for v in model.variables}
    assert not model_dir.has_current_ema()
    model_dir.save_ema(weights, 2)
    assert not model_dir.has_current_ema()
    model_dir.save_ema(weights, 3)
    assert model_dir.has_current_ema()
    model_dir.ema_path.write_bytes(b"damaged")
    assert not model_dir.has_current_ema()


@pytest.mark.parametrize("kind", ["averaged", "ema"])
def test_directory_with_only_an_average_rejects_training(model_dir, config, kind):
    assert model_dir.checkpoint_to_resume(print) is None
    model = save(model_dir, config, 3, 2.0)
    assert model_dir.checkpoint_to_resume(print) == 3
    if kind == "averaged":
        model_dir.average(1)
    else:
        model_dir.save_ema({v.path: v.numpy() for v in model.variables}, 3)
    assert model_dir.checkpoint_to_resume(print) == 3
    shutil.rmtree(model_dir.checkpoints.directory)
    for _ in range(2):
        with pytest.raises(ValueError, match="pass --init_from=") as said:
            model_dir.checkpoint_to_resume(print)
    assert f"remove {model_dir.path / kind}.npz." in str(said.value)
    assert model_dir.load_model()
    (model_dir.path / f"{kind}.npz").unlink()
    assert model_dir.checkpoint_to_resume(print) is None


def test_lock_rejects_a_second_training(model_dir):
    with model_dir.lock():
        assert model_dir.is_locked()
        with (
            pytest.raises(ValueError, match="Another training is running"),
            ModelDir(model_dir.path).lock(),
        ):
            pass
    assert not model_dir.is_locked()


def test_read_only_directory_is_named():
    with (
        pytest.raises(ValueError, match="/proc/model cannot be written to"),
        ModelDir("/proc/model").lock(),
    ):
        pass


def test_full_disk_is_detected_before_training(model_dir, config, monkeypatch):
    model = Transformer(config)
    model_dir.check_space(model.variables)
    usage = shutil.disk_usage(model_dir.path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ValueError, match=r"A checkpoint takes 0 MB, .* 0 MB free"):
        model_dir.check_space(model.variables)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
