"""Trains a Transformer on prepared data, or goes on where a run stopped.

t2t-train --data_dir=DIR --model_dir=DIR --preset=tiny --train_minutes=10
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import (
    distribution,
    hyperparameters,
    paths,
    preset,
    scores,
)
from t2t_keras.flags import training as training_flags
from t2t_keras.pipelines import stage

if TYPE_CHECKING:
    from t2t_keras.config import TrainingConfig, TransformerConfig
    from t2t_keras.data.preparation import PreparedData
    from t2t_keras.evaluation.bleu_tokenizers import TokenizerChoice

FLAGS = flags.FLAGS
_TOKENS_PER_PART = 4096


def main() -> int:
    """Runs the stage.

    Returns:
        The exit status.
    """
    import tensorflow as tf

    from t2t_keras.data.batching import Batching
    from t2t_keras.data.preparation import PreparedData
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.pipelines.reporting import Reporter
    from t2t_keras.pipelines.training_data import open_examples
    from t2t_keras.pipelines.training_run import TrainingRun
    from t2t_keras.training.budget import TrainingBudget
    from t2t_keras.training.objective import Objective
    from t2t_keras.training.optimizer import Adam
    from t2t_keras.training.schedule import WarmupSchedule
    from t2t_keras.training.strategy import has_unseen_gpu, make_strategy, worker_index
    from t2t_keras.training.trainer import Trainer
    from t2t_keras.transformer import Transformer

    if FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    # Workers find each other before anything else touches a device.
    strategy = make_strategy(**distribution.strategy_arguments())
    is_chief = worker_index(strategy) == 0
    if has_unseen_gpu():
        stage.report(
            "TensorFlow does not see this machine's GPU, and trains on its processor. "
            'Its CUDA libraries come with: pip install ".[gpu]"'
        )
    data = PreparedData(FLAGS.data_dir)
    chosen = preset.chosen_preset()
    transformer = _with_vocabulary(chosen.transformer, data)
    training = chosen.training
    _check(training, data)
    has_dev = "dev" in data.manifest["splits"]
    bleu_tokenizer, note = _bleu_tokenizer(training, data.manifest["target_lang"])
    if note and is_chief and has_dev and training.bleu_sentences:
        stage.report(note)
    if training.pad_to_boundary is None:
        # XLA compiles for each shape anew.
        padded = training.jit or FLAGS.strategy == "tpu"
        training = training.replace(pad_to_boundary=padded)
    training = training.replace(bleu_tokenizer=bleu_tokenizer)
    budget = TrainingBudget(
        steps=training.train_steps,
        epochs=training.train_epochs,
        tokens=training.train_tokens,
        minutes=training.train_minutes,
    )
    batching = Batching(
        training.batch_tokens,
        training.batch_sentences,
        bool(training.pad_to_boundary),
        transformer.seed,
    )
    schedule = WarmupSchedule(
        transformer.d_model, training.warmup_steps, training.learning_rate
    )
    replicas = strategy.num_replicas_in_sync
    objective = Objective(training.label_smoothing, training.r_drop)
    tokens = objective.passes * training.batch_tokens / replicas
    with strategy.scope():
        trainer = Trainer(
            Transformer(transformer, dtype=training.precision),
            Adam(schedule),
            objective,
            training.clip_norm,
            accumulate=training.accumulate or math.ceil(tokens / _TOKENS_PER_PART),
            strategy=strategy,
            jit=training.jit,
            ema_decay=training.ema_decay,
        )
    run = TrainingRun(
        trainer=trainer,
        data=data,
        examples=open_examples(data, "train", from_text=FLAGS.read_text),
        dev_examples=open_examples(data, "dev") if has_dev else None,
        batching=batching,
        budget=budget,
        model_dir=ModelDir(
            FLAGS.model_dir,
            keep=max(training.keep_checkpoints, training.average_last),
            keep_best=training.keep_best,
            metric=training.early_stop_metric,
        ),
        transformer=transformer,
        training=training,
        init_from=FLAGS.init_from,
        init_checkpoint=FLAGS.init_checkpoint,
        preset=FLAGS.preset,
        reporter=Reporter(training.log_format, silent=not is_chief),
        is_chief=is_chief,
    )
    return run.run()


def _with_vocabulary(
    transformer: "TransformerConfig", data: "PreparedData"
) -> "TransformerConfig":
    """Returns the configuration of a model of the data's vocabularies."""
    share = transformer.share_embeddings
    if not data.tokenizers.shared:
        if FLAGS.share_embeddings:
            raise UserError(
                "--share_embeddings needs one vocabulary; "
                f"{FLAGS.data_dir} was prepared with one for each language."
            )
        share = False
    return transformer.replace(
        source_vocab_size=data.tokenizers.source.vocab_size,
        target_vocab_size=data.tokenizers.target.vocab_size,
        share_embeddings=share,
    )


def _bleu_tokenizer(training: "TrainingConfig", target_lang: str) -> "TokenizerChoice":
    """Chooses the tokenizer of val_bleu.

    Raises:
        UserError: If it cannot be loaded, or checkpoints of the same run would be
            compared by figures of different tokenizers.
    """
    from t2t_keras.evaluation.bleu_tokenizers import AUTO, choose_tokenizer
    from t2t_keras.model_dir import ModelDir

    wanted, model_dir = training.bleu_tokenizer, ModelDir(FLAGS.model_dir)
    if model_dir.checkpoints.steps():
        run = model_dir.config["run"]
        if "val_bleu" in (training.early_stop_metric, run["early_stop_metric"]):
            # Which was the only one before directories named theirs.
            begun = run.get("bleu_tokenizer", "13a")
            if wanted not in (AUTO, begun):
                raise UserError(
                    f"{FLAGS.model_dir} has val_bleu by the tokenizer {begun}, which "
                    "its best checkpoints go by. Choose another --model_dir. Received: "
                    f"--bleu_tokenizer={wanted}"
                )
            wanted = begun
    return choose_tokenizer(target_lang, wanted)


def _check(training: "TrainingConfig", data: "PreparedData") -> None:
    """Makes sure that directories and data are there for what is asked for."""
    from t2t_keras.model_dir import ModelDir

    if Path(FLAGS.model_dir).resolve() == data.data_dir.resolve():
        raise UserError(
            f"{FLAGS.model_dir} holds the prepared data. Choose another --model_dir."
        )
    if FLAGS.init_from and not ModelDir(FLAGS.model_dir).checkpoints.steps():
        # Later on, the weights are its own, and the other directory may be gone.
        ModelDir(FLAGS.init_from).weights_path(FLAGS.init_checkpoint)
    if training.early_stop_patience:
        if not data.manifest["splits"].get("dev", {}).get("pairs"):
            raise UserError(
                "--early_stop_patience needs a dev split with sentences, which "
                f"{FLAGS.data_dir} lacks."
            )
        if training.early_stop_metric == "val_bleu" and not training.bleu_sentences:
            raise UserError(
                "--early_stop_metric=val_bleu needs --bleu_sentences. Received: 0"
            )


def run() -> None:
    """Is the console script."""
    stage.run(
        main,
        __name__,
        [preset, hyperparameters, training_flags, scores, distribution, paths],
        required=["data_dir", "model_dir"],
    )


if __name__ == "__main__":
    run()
