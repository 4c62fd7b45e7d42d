"""Begins a training with the weights in another model directory."""

from t2t_keras.data.preparation import PreparedData
from t2t_keras.model_dir import ModelDir
from t2t_keras.training.arrays import load_arrays
from t2t_keras.training.trainer import Trainer
from t2t_keras.training.warm_start import warm_start


def take_weights(
    trainer: Trainer, data: PreparedData, init_from: str, init_checkpoint: str
) -> list[str]:
    """Gives a new model the weights of another, as far as they fit.

    Args:
        trainer: Has the model.
        data: What it is to be trained on; rows of embeddings go with their tokens.
        init_from: Model directory of the other.
        init_checkpoint: Which of its weights, as of `ModelDir.weights_path`.

    Returns:
        The paths of the variables that found nothing that fits.

    Raises:
        UserError: If there are no such weights, or none of them fit.
    """
    model, other = trainer.model, ModelDir(init_from)
    mine, theirs = data.tokenizers, other.tokenizers
    unmatched = warm_start(
        model.trainable_variables,
        load_arrays(other.weights_path(init_checkpoint)),
        {
            model.source_embedding.embeddings.path: (
                mine.source.pieces(),
                theirs.source.pieces(),
            ),
            model.target_embedding.embeddings.path: (
                mine.target.pieces(),
                theirs.target.pieces(),
            ),
        },
    )
    if trainer.ema:
        trainer.ema.reset()
    return unmatched
