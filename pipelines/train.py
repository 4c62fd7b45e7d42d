"""Trains a Transformer on prepared data, or goes on where a run stopped.

t2t-train --data_dir=DIR --model_dir=DIR --preset=tiny --train_minutes=10
"""

import contextlib
import functools
import json
import math
import sys
import zlib
from pathlib import Path
from typing import Any

from absl import flags

from t2t_keras.flags import (
    distribution,
    hyperparameters,
    paths,
    preset,
    presets,
    training,
)
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS
_TOKENS_PER_PART = 4096


def main() -> None:
    """Runs the stage."""
    import tensorflow as tf

    from t2t_keras.data.batching import Batching
    from t2t_keras.data.preparation import PreparedData
    from t2t_keras.data.translation import training_dataset
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.pipelines import interrupts
    from t2t_keras.pipelines.progress import Progress
    from t2t_keras.pipelines.reporting import Reporter
    from t2t_keras.pipelines.training_run import (
        describe_start,
        dump_batch,
        lost_workers_named,
        open_examples,
        start_from,
    )
    from t2t_keras.pipelines.validation import Validation
    from t2t_keras.training import callbacks
    from t2t_keras.training.budget import TrainingBudget
    from t2t_keras.training.loop import fit
    from t2t_keras.training.optimizer import Adam
    from t2t_keras.training.schedule import WarmupSchedule
    from t2t_keras.training.strategy import make_strategy, worker_index
    from t2t_keras.training.tensorboard import TensorBoard, model_graph
    from t2t_keras.training.trainer import NO_VOTES, Trainer
    from t2t_keras.transformer import Transformer

    # Equal seeds give equal losses; on a processor it costs nothing.
    tf.config.experimental.enable_op_determinism()
    # Workers find each other before anything else touches a device.
    strategy = make_strategy(**distribution.strategy_arguments())
    replicas, is_chief = strategy.num_replicas_in_sync, worker_index(strategy) == 0
    reporter = Reporter(FLAGS.log_format, silent=not is_chief)
    values = preset.preset_values()
    data = PreparedData(FLAGS.data_dir)
    _check_values(values, data)
    limited = FLAGS.train_epochs or FLAGS.train_minutes or FLAGS.train_tokens
    budget = TrainingBudget(
        steps=FLAGS.train_steps if limited else values["train_steps"],
        epochs=FLAGS.train_epochs,
        tokens=FLAGS.train_tokens,
        minutes=FLAGS.train_minutes,
    )
    # XLA compiles for each shape anew.
    pad_to_boundary = (
        FLAGS.jit or FLAGS.strategy == "tpu"
        if FLAGS.pad_to_boundary is None
        else FLAGS.pad_to_boundary
    )
    batching = Batching(
        values["batch_tokens"], FLAGS.batch_sentences, pad_to_boundary, FLAGS.seed
    )
    examples = open_examples(data, "train", from_text=FLAGS.read_text)
    dev_examples = (
        open_examples(data, "dev") if "dev" in data.manifest["splits"] else None
    )
    model_arguments: dict[str, Any] = {
        "source_vocab_size": data.tokenizers.source.vocab_size,
        "target_vocab_size": data.tokenizers.target.vocab_size,
        **{name: values[name] for name in presets.MODEL},
        "seed": FLAGS.seed,
    }
    schedule = WarmupSchedule(
        values["d_model"], values["warmup_steps"], values["learning_rate"]
    )
    accumulate = FLAGS.accumulate or math.ceil(
        values["batch_tokens"] / (_TOKENS_PER_PART * replicas)
    )
    with strategy.scope():
        model = Transformer(**model_arguments, dtype=FLAGS.precision)
        trainer = Trainer(
            model,
            Adam(schedule),
            values["label_smoothing"],
            values["clip_norm"],
            accumulate,
            strategy,
            jit=FLAGS.jit,
            ema_decay=FLAGS.ema_decay,
        )
    model_dir = ModelDir(
        FLAGS.model_dir,
        keep=max(FLAGS.keep_checkpoints, values["average_last"]),
        keep_best=FLAGS.keep_best,
        metric=FLAGS.early_stop_metric,
    )
    training_values = _training_values(values, pad_to_boundary)
    with contextlib.ExitStack() as stack:
        stack.enter_context(lost_workers_named(model_dir.path))
        # Nothing is written before all of the above has been found to be in order.
        if is_chief:
            stack.enter_context(model_dir.lock())
            model_dir.initialize(
                model=model_arguments,
                training=training_values,
                run={
                    **{name: values[name] for name in presets.RUN},
                    "early_stop_metric": FLAGS.early_stop_metric,
                },
                data=data,
            )
            model_dir.check_space([*model.variables, *trainer.state_variables])
        interrupted = stack.enter_context(interrupts.asked_to_stop())
        stack.callback(reporter.close)
        progress = Progress(
            budget,
            trainer,
            FLAGS.checkpoint_steps,
            values["checkpoint_minutes"],
            interrupted,
            is_chief,
        )
        stopping = (
            callbacks.EarlyStopping(FLAGS.early_stop_metric, FLAGS.early_stop_patience)
            if FLAGS.early_stop_patience
            else None
        )
        newest = (
            model_dir.checkpoints.newest_whole(reporter.message) if is_chief else None
        )
        step = trainer.of_chief(newest or 0)
        described = json.dumps([model_arguments, training_values, data.manifest])
        if not trainer.are_equal(zlib.crc32(described.encode()) >> 16):
            raise ValueError("The workers were started with different flags or data.")
        saved = None
        if step:
            saved = model_dir.checkpoints.restore(
                step, model.variables, trainer.state_variables
            )
            progress.restore(saved)
            if stopping and saved["early_stopping"]:
                stopping.restore(saved["early_stopping"])
        elif FLAGS.init_from:
            unmatched = start_from(
                model, data.tokenizers, FLAGS.init_from, FLAGS.init_checkpoint
            )
            if trainer.ema:
                trainer.ema.reset()
            reporter.message(
                f"Began with the weights of {FLAGS.init_from}"
                + (f", without {', '.join(unmatched)}." if unmatched else ".")
            )
        if saved and saved["stopped_early"]:
            reporter.message(
                f"{model_dir.path} is trained already: early stopping ended it after "
                f"{trainer.step:,} steps."
            )
            return
        if progress.fraction() >= 1:
            reporter.message(
                f"{model_dir.path} is trained already, for {trainer.step:,} steps. A "
                "larger --train_steps, --train_epochs, --train_tokens or "
                "--train_minutes goes on."
            )
            return
        if saved:
            reporter.message(f"Going on after step {trainer.step:,}.")
        reporter.message(
            describe_start(
                trainer, model_arguments, examples, batching, budget.steps, FLAGS.preset
            )
        )

        watchers: list[Any] = [progress]
        board = None
        if is_chief:
            board = TensorBoard(
                model_dir.log_dir,
                lambda: trainer.step,
                {**values, "replicas": replicas, "precision": FLAGS.precision},
                functools.partial(model_graph, model),
                profile=_profile_steps(),
            )
            saving = callbacks.SaveCheckpoint(
                model_dir.checkpoints,
                trainer,
                lambda: {
                    **progress.state(),
                    "early_stopping": stopping.state() if stopping else None,
                    "stopped_early": bool(model.stop_training),
                },
                model_dir.save_ema if trainer.ema else None,
            )
            watchers += [
                callbacks.ProgressReport(
                    reporter.event,
                    progress.fraction,
                    reporter.every_seconds or FLAGS.report_seconds,
                ),
                board,
                *([stopping] if stopping else []),
                saving,
            ]
        watchers.append(
            callbacks.SkippedSteps(
                FLAGS.max_skipped_steps,
                reporter.message,
                dump_batch(
                    examples, batching, data, model_dir.path / "skipped", is_chief
                ),
            )
        )
        validation = Validation(
            trainer,
            dev_examples,
            batching,
            model_dir,
            bleu_sentences=FLAGS.bleu_sentences,
            sample_sentences=FLAGS.sample_sentences,
            report=reporter.message,
            board=board,
            is_chief=is_chief,
        )
        dataset = trainer.distribute(
            functools.partial(training_dataset, examples, batching, progress.position)
        )
        ended = fit(
            trainer, dataset, watchers, validation, progress.votes, progress.is_over
        )
        if ended:
            reporter.message(f"Trained {trainer.step:,} steps: {model_dir.path}")
            return
        if is_chief:
            saving.save()
            reporter.message(
                f"Stopped and saved after step {trainer.step:,}. The same command line "
                "goes on."
            )
        # None exits before the chief has saved: schedulers end the rest of a job then.
        trainer.agree(NO_VOTES)
    sys.exit(interrupts.EXIT_SAVED)


def _training_values(values: dict[str, Any], pad_to_boundary: bool) -> dict[str, Any]:
    """Returns what decides what is computed, beside the model's arguments."""
    apart = {*presets.DATA, *presets.MODEL, *presets.RUN}
    return {
        **{name: values[name] for name in values if name not in apart},
        "batch_sentences": FLAGS.batch_sentences,
        "pad_to_boundary": pad_to_boundary,
        "precision": FLAGS.precision,
        "ema_decay": FLAGS.ema_decay,
    }


def _check_values(values: dict[str, Any], data: Any) -> None:
    """Brings the values in line with the data, or says why they cannot be."""
    if Path(FLAGS.model_dir).resolve() == data.data_dir.resolve():
        raise ValueError(
            f"{FLAGS.model_dir} holds the prepared data. Choose another --model_dir."
        )
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
    _profile_steps()


def _profile_steps() -> tuple[int, int] | None:
    steps = FLAGS.profile_steps
    if not steps:
        return None
    if len(steps) != 2 or not all(step.isdecimal() for step in steps):
        raise ValueError(
            "--profile_steps is the first and the last step to profile, such as 10,12. "
            f"Received: {','.join(steps)}"
        )
    return int(steps[0]), int(steps[1])


def run() -> None:
    """Is the console script."""
    stage.run(
        main,
        __name__,
        [preset, hyperparameters, training, distribution, paths],
        required=["data_dir", "model_dir"],
    )


if __name__ == "__main__":
    run()
