"""A model directory belongs to one training and tells which weights are the best."""

import sys

import numpy as np
import pytest

from t2t_keras import Transformer
from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.preparation import PreparedData, prepare
from t2t_keras.model_dir import ModelDir
from t2t_keras.training.optimizer import Adam

TRAINING = {"learning_rate": 1.0, "batch_tokens": 100}
RUN = {"train_steps": 10, "average_last": 2}


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
def arguments(data):
    return {
        "source_vocab_size": data.tokenizers.source.vocab_size,
        "num_layers": 1,
        "d_model": 8,
        "d_ff": 8,
        "num_heads": 2,
    }


@pytest.fixture
def model_dir(tmp_path, data, arguments):
    model_dir = ModelDir(tmp_path / "model")
    model_dir.initialize(arguments, TRAINING, RUN, data)
    return model_dir


def save(model_dir, arguments, step, value):
    model = Transformer(**arguments)
    optimizer = Adam(0.1)
    optimizer.build(model.trainable_variables)
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, value))
    model_dir.checkpoints.save(step, model, optimizer, {})


def test_only_the_run_may_change(model_dir, data, arguments):
    model_dir.initialize(arguments, TRAINING, {**RUN, "train_steps": 20}, data)
    assert model_dir.config["run"]["train_steps"] == 20
    with pytest.raises(ValueError, match="d_ff is 8 there and 16 here"):
        model_dir.initialize({**arguments, "d_ff": 16}, TRAINING, RUN, data)
    with pytest.raises(ValueError, match=r"learning_rate is 1\.0 there and 2\.0 here"):
        model_dir.initialize(arguments, {**TRAINING, "learning_rate": 2.0}, RUN, data)
    # What was refused has changed nothing.
    assert model_dir.config["training"] == TRAINING
    assert model_dir.config["run"]["train_steps"] == 20


def test_other_training_data_are_refused(model_dir, data, arguments, tmp_path):
    other = prepare_pairs(tmp_path, 60)
    other.tokenizers = data.tokenizers
    other.manifest["vocabulary_fingerprint"] = data.tokenizers.fingerprint
    with pytest.raises(ValueError, match="holds other training data"):
        model_dir.initialize(arguments, TRAINING, RUN, other)
    with pytest.raises(ValueError, match="Choose another --model_dir"):
        ModelDir(data.data_dir).initialize(arguments, TRAINING, RUN, data)


def test_a_damaged_config_is_named(model_dir):
    path = model_dir.path / "config.json"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        model_dir.load_model()


def test_the_average_counts_until_training_goes_on(model_dir, arguments):
    with pytest.raises(ValueError, match="has no checkpoint yet"):
        model_dir.average(2)
    for step, value in ((1, 5.0), (2, 1.0), (3, 2.0)):
        save(model_dir, arguments, step, value)
    assert model_dir.weights_path().name == "weights-00000003.npz"
    assert model_dir.average(2) == [2, 3]
    assert model_dir.weights_path() == model_dir.averaged_path
    for weight in model_dir.load_model().trainable_variables:
        np.testing.assert_array_equal(weight, np.full(weight.shape, 1.5))
    assert model_dir.average(9) == [1, 2, 3]
    save(model_dir, arguments, 4, 7.0)
    assert model_dir.weights_path().name == "weights-00000004.npz"
    assert model_dir.weights_path("averaged") == model_dir.averaged_path


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
