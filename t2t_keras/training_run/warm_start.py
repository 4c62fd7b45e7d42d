"""Initial weights from another model directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_keras.config import Preset, TrainingConfig, TransformerConfig
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.model_dir import ModelDir
from t2t_keras.training.trainer import Trainer
from t2t_keras.training.weight_files import load_arrays
from t2t_keras.training.weight_transfer import warm_start

_NOT_COMPARED = {
    # Sizes: weights of other shapes are reported as not copied.
    *("source_vocab_size", "target_vocab_size", "max_length", "d_model", "d_ff"),
    *("num_layers", "num_decoder_layers", "d_k", "d_v"),
    # Settings that do not change what trained weights compute.
    *("dropout", "attention_dropout", "relu_dropout", "seed"),
}
_CHOSEN_FOR_THE_RUN = ("bleu_tokenizer", "pad_to_boundary")
"""Fields that `train` replaces by what fits the language or the devices."""


def preset_from(init_from: str | Path, model_dir: str | Path) -> Preset:
    """Returns the configuration of another model, to train its weights further.

    Args:
        init_from: Directory of the other model.
        model_dir: Directory of the new model. If it has checkpoints to resume from,
            `init_from` is not needed any more, and may be gone.

    Raises:
        UserError: If there is no other model.
    """
    other, new = ModelDir(init_from), ModelDir(model_dir)
    if new.checkpoints.steps() and not other.path.exists():
        other = new
    defaults = TrainingConfig()
    return Preset(
        transformer=other.transformer_config,
        training=other.training_config.replace(
            **{name: getattr(defaults, name) for name in _CHOSEN_FOR_THE_RUN}
        ),
    )


def differing_values(config: TransformerConfig, init_from: str) -> dict[str, Any]:
    """Returns the settings of another model that change what its weights compute.

    With another activation or positional encoding, for example, weights have the same
    names and shapes, but are of little use.

    Args:
        config: The configuration of the new model.
        init_from: Directory of the other model.

    Returns:
        The other model's values of the fields that differ, by name.
    """
    values = config.to_dict()
    other = ModelDir(init_from).transformer_config.to_dict()
    return {
        name: value
        for name, value in other.items()
        if name not in _NOT_COMPARED and value != values[name]
    }


def copy_weights(
    trainer: Trainer, data: PreparedData, init_from: str, init_checkpoint: str
) -> list[str]:
    """Copies the weights of another model into a new one, where shapes fit.

    Args:
        trainer: The trainer of the new model.
        data: The data of the new model. Embeddings are copied token by token, so the
            vocabularies may differ.
        init_from: Directory of the other model.
        init_checkpoint: The weights to copy, as for `ModelDir.weights_path`.

    Returns:
        The paths of the variables that keep their random weights.

    Raises:
        UserError: If there are no such weights, or none of them fit.
    """
    model, other = trainer.model, ModelDir(init_from)
    mine, theirs = data.tokenizers, other.tokenizers
    source = mine.source.pieces(), theirs.source.pieces()
    target = mine.target.pieces(), theirs.target.pieces()
    embeddings, output = model.target_embedding.embeddings, model.output_weights
    by_token = {
        model.source_embedding.embeddings.path: source,
        embeddings.path: target,
        **{v.path: target for v in (output.variables if output else ())},
    }
    arrays = load_arrays(other.weights_path(init_checkpoint))
    if output and output.kernel is not None and embeddings.path in arrays:
        # A model without an output matrix uses the target embeddings.
        arrays.setdefault(output.kernel.path, arrays[embeddings.path])
    unmatched = warm_start(model.trainable_variables, arrays, by_token)
    if trainer.ema:
        trainer.ema.reset()
    return unmatched


def initialize_weights(
    trainer: Trainer,
    data: PreparedData,
    config: TransformerConfig,
    init_from: str,
    init_checkpoint: str,
    report: Callable[[str], None],
) -> None:
    """Copies the weights of another model and reports what does not fit.

    Args:
        trainer: See `copy_weights`.
        data: See `copy_weights`.
        config: The configuration of the new model.
        init_from: Directory of the other model.
        init_checkpoint: See `copy_weights`.
        report: Called with each message.

    Raises:
        UserError: If there are no such weights, or none of them fit.
    """
    unmatched = copy_weights(trainer, data, init_from, init_checkpoint)
    report(
        f"Initialized with the weights of {init_from}"
        + (f", except {', '.join(unmatched)}." if unmatched else ".")
    )
    if other := differing_values(config, init_from):
        values = ", ".join(f"{name}={value}" for name, value in other.items())
        report(f"{init_from} has other values: {values}.")
