"""Completes and checks a configuration against the data and the model directory."""

from pathlib import Path

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.errors import UserError
from t2t_keras.evaluation.bleu_tokenizers import AUTO, TokenizerChoice, choose_tokenizer
from t2t_keras.model_dir import ModelDir


def with_vocabulary(
    transformer: TransformerConfig, data: PreparedData
) -> TransformerConfig:
    """Returns the configuration with the vocabulary sizes of the data."""
    tokenizers = data.tokenizers
    return transformer.replace(
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
        share_embeddings=transformer.share_embeddings and tokenizers.shared,
    )


def bleu_tokenizer(
    training: TrainingConfig, target_lang: str, model_dir: Path
) -> TokenizerChoice:
    """Chooses the tokenizer for val_bleu.

    Raises:
        UserError: If it cannot be loaded, or differs from the one that earlier
            checkpoints of the run were scored with.
    """
    wanted, directory = training.bleu_tokenizer, ModelDir(model_dir)
    if directory.checkpoints.steps():
        run = directory.config["run"]
        if "val_bleu" in (training.early_stop_metric, run["early_stop_metric"]):
            # Older versions did not save the tokenizer: they had only this one.
            saved = run.get("bleu_tokenizer", "13a")
            if wanted not in (AUTO, saved):
                raise UserError(
                    f"--bleu_tokenizer must be {AUTO} or {saved}, the tokenizer of "
                    f"val_bleu in {model_dir}. To use another one, choose another "
                    f"--model_dir. Received: {wanted}"
                )
            wanted = saved
    return choose_tokenizer(target_lang, wanted)


def check(
    training: TrainingConfig,
    data: PreparedData,
    model_dir: Path,
    init_from: str | None,
    init_checkpoint: str,
) -> None:
    """Checks that directories and data fit the configuration.

    Raises:
        UserError: If they do not.
    """
    if model_dir.resolve() == data.data_dir.resolve():
        raise UserError(
            f"--model_dir must not be the data directory. Received: {model_dir}"
        )
    if init_from and not ModelDir(model_dir).checkpoints.steps():
        # Only a new training reads the other directory: it may be gone later.
        ModelDir(init_from).weights_path(init_checkpoint)
    if training.early_stop_patience:
        if not data.manifest["splits"].get("dev", {}).get("pairs"):
            raise UserError(
                "--early_stop_patience needs a dev split with sentences, but "
                f"{data.data_dir} has none."
            )
        if training.early_stop_metric == "val_bleu" and not training.bleu_sentences:
            raise UserError(
                "--early_stop_metric=val_bleu needs --bleu_sentences to be positive. "
                "Received: 0"
            )
