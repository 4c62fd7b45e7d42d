"""Configurations: validation, conversion to dictionaries, presets and flags."""

import dataclasses
import json
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from t2t_keras import Transformer
from t2t_keras.config import PRESETS, TrainingConfig, TransformerConfig
from t2t_keras.config.transformer_config import ACTIVATIONS, POSITIONS
from t2t_keras.errors import UserError
from t2t_keras.flags import hyperparameters, preset_flag, training
from t2t_keras.layers.positional_encoding import POSITIONAL_ENCODINGS

CONFIGS = (TransformerConfig, TrainingConfig)


@pytest.fixture(autouse=True)
def parsed():
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_layers": 0}, "num_layers must be an integer of at least 1. Received: 0"),
        ({"num_layers": 2.0}, "num_layers must be an integer"),
        ({"num_layers": "2"}, "Received: '2'"),
        ({"num_layers": None}, "num_layers must be an integer"),
        ({"d_k": 0}, "d_k must be an integer of at least 1 or None. Received: 0"),
        ({"pre_norm": 1}, "pre_norm must be True or False. Received: 1"),
        ({"seed": True}, "seed must be an integer of at least 0. Received: True"),
        ({"dropout": float("nan")}, "dropout must be a number from 0 to 1"),
        ({"dropout": -0.1}, "dropout must be a number from 0 to 1. Received: -0.1"),
        ({"position": "rotary"}, "position must be one of sinusoidal,"),
        ({"num_heads": 7}, "d_model must be a multiple of num_heads"),
        ({"source_vocab_size": 9, "target_vocab_size": 8}, "With share_embeddings, "),
        ({"learning_rate": -1}, "learning_rate must be a number of at least 0"),
        ({"learning_rate": float("inf")}, "learning_rate must be a number of at least"),
        ({"early_stop_threshold": float("nan")}, "early_stop_threshold must be a nu"),
        ({"r_drop": 0}, "r_drop must be positive or None. Received: 0"),
        ({"label_smoothing": 1}, "label_smoothing must be below 1"),
        ({"ema_decay": 1.0}, "ema_decay must be between 0 and 1"),
        ({"precision": "float64"}, "precision must be one of float32"),
        ({"profile_steps": (3,)}, "profile_steps must be the first and the last"),
        ({"dropuot": 0.1}, "Received: 'dropuot'"),
    ],
    ids=str,
)
def test_values_out_of_range_are_rejected(values, message):
    with pytest.raises(UserError, match=message.replace(".", r"\.")):
        PRESETS["base"].replace(**values)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name):
    for config in (PRESETS[name].transformer, PRESETS[name].training):
        again = type(config).from_dict(json.loads(json.dumps(config.to_dict())))
        assert again == config


def test_sequences_survive_json():
    config = TrainingConfig(profile_steps=(10, 12), search={"beam_size": 2})
    assert TrainingConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize("config", CONFIGS)
def test_missing_fields_get_defaults_and_unknown_fields_are_rejected(config):
    assert config.from_dict({}) == config()
    with pytest.raises(UserError, match="no field 'sparsity', 'x'"):
        config.from_dict({"sparsity": 1, "x": 2})


def test_sections_divide_the_training_config():
    fixed, run = TrainingConfig().sections()
    assert not {*fixed} & {*run}
    assert {**fixed, **run} == TrainingConfig().to_dict()
    assert "label_smoothing" in fixed
    assert "train_steps" in run


@pytest.mark.parametrize("config", CONFIGS)
def test_every_field_with_help_is_a_flag_of_its_name(config):
    for field in dataclasses.fields(config):
        if field.metadata:
            assert flags.FLAGS[field.name].value is None
            text = flags.FLAGS[field.name].help
            assert field.metadata["help"] in text
            assert "None" not in text
            assert text.endswith(".")


def test_flags_override_the_preset():
    with flagsaver.as_parsed(
        preset="base",
        num_layers="2",
        pre_norm="true",
        dropout="0.3",
        precision="mixed_bfloat16",
        profile_steps="3,4",
        seed="7",
    ):
        chosen = preset_flag.chosen_preset()
    assert chosen == PRESETS["base"].replace(
        num_layers=2,
        pre_norm=True,
        dropout=0.3,
        precision="mixed_bfloat16",
        profile_steps=(3, 4),
        seed=7,
    )
    with (
        flagsaver.as_parsed(profile_steps="3,x"),
        pytest.raises(UserError, match="3,x"),
    ):
        preset_flag.chosen_preset()


def test_another_limit_replaces_the_presets_number_of_steps():
    with flagsaver.as_parsed(preset="tiny", train_minutes="5"):
        assert preset_flag.chosen_preset().training.train_steps is None
    with flagsaver.as_parsed(preset="tiny", train_minutes="5", train_steps="9"):
        assert preset_flag.chosen_preset().training.train_steps == 9


def test_flags_are_divided_between_hyperparameters_and_the_rest():
    names = [*hyperparameters.MODEL, *hyperparameters.TRAINING]
    assert len({*names}) == len(names)
    assert {"d_model", "learning_rate", "train_steps", "cooldown"} <= {*names}
    by_module = flags.FLAGS.flags_by_module_dict()
    own = {flag.name for flag in by_module[training.__name__]}
    assert not own & {*names}
    assert {"seed", "train_minutes", "log_format"} <= own


def test_every_value_of_position_has_a_layer():
    assert {*POSITIONS} == {*POSITIONAL_ENCODINGS}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_model_uses_the_configured_activation(activation):
    sizes = {"source_vocab_size": 9, "num_layers": 1, "d_model": 8, "num_heads": 2}
    model = Transformer(activation=activation, **sizes)
    for stack in (model.encoder, model.decoder):
        assert stack.layers[0].feed_forward.activation == activation
    again = Transformer.from_config(model.get_config())
    assert again.config == model.config


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
