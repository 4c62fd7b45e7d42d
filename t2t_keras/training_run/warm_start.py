"""Initial weights from another model directory."""

from t2t_keras.data.preparation import PreparedData
from t2t_keras.model_dir import ModelDir
from t2t_keras.training.trainer import Trainer
from t2t_keras.training.weight_files import load_arrays
from t2t_keras.training.weight_transfer import warm_start


def take_weights(
    trainer: Trainer, data: PreparedData, init_from: str, init_checkpoint: str
) -> list[str]:
    """Copies the weights of another model into a new one, where shapes fit.

    Args:
        trainer: The trainer of the new model.
        data: The data of the new model. Embeddings are copied token by token, so the
            vocabularies may differ.
        init_from: Directory of the other model.
        init_checkpoint: Which of its weights, as for `ModelDir.weights_path`.

    Returns:
        The paths of the variables that keep their random weights.

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
