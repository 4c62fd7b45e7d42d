"""Trains a Transformer on prepared data, or goes on where a run stopped.

t2t-train --data_dir=DIR --model_dir=DIR --preset=tiny --train_minutes=10
"""

from typing import Any

from absl import flags

from t2t_keras.flags import hyperparameters, paths, presets
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

flags.DEFINE_float("train_epochs", None, "Passes over the data to train for.", 0)
flags.DEFINE_float("train_minutes", None, "Minutes to train for.", 0)
flags.DEFINE_integer("checkpoint_steps", None, "Updates between checkpoints.", 1)
flags.DEFINE_integer("keep_checkpoints", 20, "Checkpoints to keep, the newest.", 1)
flags.DEFINE_integer("batch_sentences", None, "Most pairs of a global batch.", 1)
flags.DEFINE_bool("pad_to_boundary", False, "Few shapes of batches, more padding.")
flags.DEFINE_integer(
    "accumulate", 0, "Parts of a batch computed in turn; 0: of 4,096 tokens at most.", 0
)
flags.DEFINE_integer("seed", 0, "Seed of weights, dropout and the data's order.")
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "mixed_bfloat16"],
    "What matrix products are computed in.",
)
flags.DEFINE_bool("jit", False, "Compile the training step with XLA.")
flags.DEFINE_bool("read_text", False, "Tokenize the corpus anew while training.")
flags.DEFINE_enum(
    "early_stop_metric",
    "val_nll",
    ["val_nll", "val_loss", "val_perplexity", "val_accuracy", "val_bleu"],
    "Figure of the dev split that early stopping watches.",
)
flags.DEFINE_integer(
    "early_stop_patience",
    None,
    "Validations without a better figure before the end.",
    1,
)
flags.DEFINE_integer("bleu_sentences", 200, "Dev sentences decoded for BLEU.", 0)
flags.DEFINE_integer("sample_sentences", 2, "Of which so many are shown.", 0)
flags.DEFINE_float("report_seconds", 10.0, "Seconds between reports.", 0)

_TOKENS_PER_PART = 4096


def main() -> None:
    """Runs the stage."""
    import tensorflow as tf

    from t2t_keras.data.batching import Batching
    from t2t_keras.data.preparation import PreparedData
    from t2t_keras.data.translation import training_dataset
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.pipelines.training_run import Progress, Validation, open_examples
    from t2t_keras.training import callbacks
    from t2t_keras.training.budget import TrainingBudget
    from t2t_keras.training.optimizer import Adam
    from t2t_keras.training.schedule import WarmupSchedule
    from t2t_keras.training.trainer import Trainer
    from t2t_keras.transformer import Transformer

    # Equal seeds give equal losses; on a processor it costs nothing.
    tf.config.experimental.enable_op_determinism()
    values = hyperparameters.hyperparameters()
    data = PreparedData(FLAGS.data_dir)
    _check_values(values, data)
    examples = open_examples(data, "train", from_text=FLAGS.read_text)
    dev_examples = (
        open_examples(data, "dev") if "dev" in data.manifest["splits"] else None
    )
    limited = FLAGS.train_epochs or FLAGS.train_minutes
    budget = TrainingBudget(
        steps=FLAGS.train_steps if limited else values["train_steps"],
        epochs=FLAGS.train_epochs,
        minutes=FLAGS.train_minutes,
    )
    batching = Batching(
        values["batch_tokens"], FLAGS.batch_sentences, FLAGS.pad_to_boundary, FLAGS.seed
    )
    model_arguments: dict[str, Any] = {
        "source_vocab_size": data.tokenizers.source.vocab_size,
        "target_vocab_size": data.tokenizers.target.vocab_size,
        **{name: values[name] for name in presets.MODEL},
        "seed": FLAGS.seed,
    }
    model = Transformer(**model_arguments, dtype=FLAGS.precision)
    schedule = WarmupSchedule(
        values["d_model"], values["warmup_steps"], values["learning_rate"]
    )
    accumulate = FLAGS.accumulate or -(-values["batch_tokens"] // _TOKENS_PER_PART)
    trainer = Trainer(
        model,
        Adam(schedule),
        values["label_smoothing"],
        values["clip_norm"],
        accumulate,
        jit=FLAGS.jit,
    )

    # Nothing is written before all of the above has been found to be in order.
    model_dir = ModelDir(FLAGS.model_dir, FLAGS.keep_checkpoints)
    apart = {*presets.DATA, *presets.MODEL, *presets.RUN}
    model_dir.initialize(
        model=model_arguments,
        training={
            **{name: values[name] for name in values if name not in apart},
            "batch_sentences": FLAGS.batch_sentences,
            "pad_to_boundary": FLAGS.pad_to_boundary,
            "precision": FLAGS.precision,
        },
        run={name: values[name] for name in presets.RUN},
        data=data,
    )
    progress = Progress(budget, trainer)
    saved = model_dir.checkpoints.restore(model, trainer.optimizer)
    if saved:
        progress.restore(saved)
        stage.report(f"Going on after step {trainer.step:,}.")
    if progress.fraction() >= 1:
        stage.report(f"{model_dir.path} is trained already: {budget}.")
        return

    statistics = batching.statistics(examples.lengths, accumulate)
    stage.report(
        stage.describe(
            preset=FLAGS.preset,
            parameters=sum(
                v.value.shape.num_elements() for v in model.trainable_weights
            ),
            precision=FLAGS.precision,
            training_pairs=len(examples),
            batches_an_epoch=statistics.batches,
            parts_of_a_batch=accumulate,
            shapes=statistics.shapes,
            non_padding=f"{statistics.non_padding:.3f}",
        )
    )
    validation = Validation(
        trainer,
        dev_examples,
        batching,
        model_dir,
        bleu_sentences=FLAGS.bleu_sentences,
        sample_sentences=FLAGS.sample_sentences,
        report=stage.report,
    )
    watchers = [
        progress,
        callbacks.ProgressReport(stage.report, progress.fraction, FLAGS.report_seconds),
        callbacks.TensorBoardScalars(model_dir.log_dir, lambda: trainer.step),
        callbacks.SaveCheckpoint(
            model_dir.checkpoints, trainer.optimizer, progress.state
        ),
    ]
    if FLAGS.early_stop_patience:
        watchers.append(
            callbacks.early_stopping(FLAGS.early_stop_metric, FLAGS.early_stop_patience)
        )

    def is_interval_over() -> bool:
        if FLAGS.checkpoint_steps:
            return trainer.step % FLAGS.checkpoint_steps == 0
        return progress.interval_minutes() >= values["checkpoint_minutes"]

    trainer.fit(
        training_dataset(examples, batching, progress.position, accumulate),
        watchers,
        validation,
        is_interval_over,
        lambda _: progress.fraction() >= 1,
    )
    stage.report(f"Trained {trainer.step:,} steps: {model_dir.path}")


def _check_values(values: dict[str, Any], data: Any) -> None:
    """Brings the values in line with the data, or says why they cannot be."""
    if not data.tokenizers.shared:
        if FLAGS.share_embeddings:
            raise ValueError(
                f"--share_embeddings needs one vocabulary; {FLAGS.data_dir} was "
                "prepared with one for each language."
            )
        values["share_embeddings"] = False
    if FLAGS.early_stop_patience:
        if not data.manifest["splits"].get("dev", {}).get("pairs"):
            raise ValueError(
                "--early_stop_patience needs a dev split with sentences, which "
                f"{FLAGS.data_dir} lacks."
            )
        if FLAGS.early_stop_metric == "val_bleu" and not FLAGS.bleu_sentences:
            raise ValueError(
                "--early_stop_metric=val_bleu needs --bleu_sentences. Received: 0"
            )


def run() -> None:
    """Is the console script."""
    stage.run(
        main, __name__, [hyperparameters, paths], required=["data_dir", "model_dir"]
    )


if __name__ == "__main__":
    run()
