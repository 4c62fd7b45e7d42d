"""A run of the training stage: what surrounds the loop."""

import contextlib
import functools
import json
import zlib
from typing import Any

from absl import flags

from t2t_keras.data.batching import Batching
from t2t_keras.data.examples import Examples
from t2t_keras.data.preparation import PreparedData
from t2t_keras.data.translation import training_dataset
from t2t_keras.model_dir import ModelDir
from t2t_keras.pipelines import interrupts
from t2t_keras.pipelines.progress import Progress
from t2t_keras.pipelines.reporting import Reporter, describe_start
from t2t_keras.pipelines.training_data import dump_batch
from t2t_keras.pipelines.validation import Validation
from t2t_keras.training import callbacks
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.checkpoints import load_arrays
from t2t_keras.training.loop import fit
from t2t_keras.training.strategy import lost_workers_named
from t2t_keras.training.tensorboard import TensorBoard, model_graph
from t2t_keras.training.trainer import NO_VOTES, Trainer
from t2t_keras.training.warm_start import warm_start

FLAGS = flags.FLAGS


class TrainingRun:
    """One run of the training stage, from its first or its last checkpoint on.

    Args:
        trainer: Has the model and the strategy.
        data: The prepared directory.
        examples: Its training split.
        dev_examples: Its dev split, or None.
        batching: How batches are formed.
        budget: How long to train.
        model_dir: Where to write.
        config: Sections "model", "training" and "run" of the directory's config.
        reporter: Tells the user.
        is_chief: Whether this worker reports, validates by decoding, and writes.
    """

    def __init__(
        self,
        trainer: Trainer,
        data: PreparedData,
        examples: Examples,
        dev_examples: Examples | None,
        batching: Batching,
        budget: TrainingBudget,
        model_dir: ModelDir,
        config: dict[str, Any],
        reporter: Reporter,
        is_chief: bool,
    ) -> None:
        self._trainer = trainer
        self._data = data
        self._examples = examples
        self._dev_examples = dev_examples
        self._batching = batching
        self._budget = budget
        self._model_dir = model_dir
        self._config = config
        self._reporter = reporter
        self._is_chief = is_chief
        self._stopping = (
            callbacks.EarlyStopping(FLAGS.early_stop_metric, FLAGS.early_stop_patience)
            if FLAGS.early_stop_patience
            else None
        )
        dump = dump_batch(
            examples, batching, data, model_dir.path / "skipped", is_chief
        )
        self._skipped = callbacks.SkippedSteps(
            FLAGS.max_skipped_steps, reporter.message, dump
        )

    def run(self) -> int:
        """Trains, and returns the exit status.

        Raises:
            ValueError: If the directory, or another worker, does not fit this run.
            ConnectionError: If another worker is lost.
        """
        trainer, reporter = self._trainer, self._reporter
        with contextlib.ExitStack() as stack:
            stack.enter_context(lost_workers_named(self._model_dir.path))
            if self._is_chief:
                stack.enter_context(self._model_dir.lock())
                self._model_dir.initialize(**self._config, data=self._data)
                self._model_dir.check_space(
                    [*trainer.model.variables, *trainer.state_variables]
                )
            interrupted = stack.enter_context(interrupts.asked_to_stop())
            stack.callback(reporter.close)
            progress = Progress(
                self._budget,
                trainer,
                FLAGS.checkpoint_steps,
                self._config["run"]["checkpoint_minutes"],
                interrupted,
                self._is_chief,
            )
            if ended := self._restore(progress):
                reporter.message(ended)
                return 0
            reporter.message(
                describe_start(
                    trainer,
                    self._config["model"],
                    self._examples,
                    self._batching,
                    self._budget,
                    FLAGS.preset,
                )
            )
            board = self._board() if self._is_chief else None
            saving = callbacks.SaveCheckpoint(
                self._model_dir.checkpoints,
                trainer,
                lambda: {
                    **progress.state(),
                    "early_stopping": self._stopping and self._stopping.state(),
                    "stopped_early": bool(trainer.model.stop_training),
                    "skipped_in_a_row": self._skipped.in_a_row,
                },
                self._model_dir.save_ema if trainer.ema else None,
            )
            dataset = trainer.distribute(
                functools.partial(
                    training_dataset, self._examples, self._batching, progress.position
                )
            )
            done = fit(
                trainer,
                dataset,
                self._watchers(progress, board, saving),
                self._validation(board),
                progress.votes,
                progress.is_over,
            )
            if done:
                reporter.message(
                    f"Trained {trainer.step:,} steps: {self._model_dir.path}"
                )
                return 0
            if self._is_chief:
                saving.save()
                reporter.message(
                    f"Stopped and saved after step {trainer.step:,}. The same command "
                    "line goes on."
                )
            # None exits before the chief has saved: schedulers end all others then.
            trainer.agree(NO_VOTES)
            return interrupts.EXIT_SAVED

    def _restore(self, progress: Progress) -> str | None:
        """Takes over the newest checkpoint, or the weights to begin with.

        Returns:
            Why there is nothing left to train, or None.
        """
        trainer, checkpoints = self._trainer, self._model_dir.checkpoints
        newest = None
        if self._is_chief:
            newest = checkpoints.newest_whole(self._reporter.message)
        step = trainer.of_chief(newest or 0)
        described = json.dumps(
            [self._config["model"], self._config["training"], self._data.manifest]
        )
        if not trainer.are_equal(zlib.crc32(described.encode()) >> 16):
            raise ValueError("The workers were started with different flags or data.")
        if not step:
            if FLAGS.init_from:
                self._warm_start()
            return None
        variables = trainer.model.variables, trainer.state_variables
        saved = checkpoints.restore(step, *variables)
        progress.restore(saved)
        self._skipped.in_a_row = saved["skipped_in_a_row"]
        if self._stopping and saved["early_stopping"]:
            self._stopping.restore(saved["early_stopping"])
        path = self._model_dir.path
        if saved["stopped_early"]:
            return (
                f"{path} is trained already: early stopping ended it after "
                f"{trainer.step:,} steps."
            )
        if progress.fraction() >= 1:
            return (
                f"{path} is trained already, for {trainer.step:,} steps. A larger "
                "--train_steps, --train_epochs, --train_tokens or --train_minutes goes "
                "on."
            )
        self._reporter.message(f"Going on after step {trainer.step:,}.")
        return None

    def _warm_start(self) -> None:
        """Gives the new model the weights of another, as far as they fit."""
        model, other = self._trainer.model, ModelDir(FLAGS.init_from)
        mine, theirs = self._data.tokenizers, other.tokenizers
        unmatched = warm_start(
            model.trainable_variables,
            load_arrays(other.weights_path(FLAGS.init_checkpoint)),
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
        if self._trainer.ema:
            self._trainer.ema.reset()
        self._reporter.message(
            f"Began with the weights of {FLAGS.init_from}"
            + (f", without {', '.join(unmatched)}." if unmatched else ".")
        )

    def _board(self) -> TensorBoard:
        trainer = self._trainer
        return TensorBoard(
            self._model_dir.log_dir,
            lambda: trainer.step,
            {
                **self._config["model"],
                **self._config["training"],
                **self._config["run"],
                "replicas": trainer.replicas,
            },
            functools.partial(model_graph, trainer.model),
            profile=profile_steps(),
        )

    def _watchers(
        self,
        progress: Progress,
        board: TensorBoard | None,
        saving: callbacks.SaveCheckpoint,
    ) -> list[Any]:
        """Returns the callbacks: all of them on the chief, which saves last."""
        if not self._is_chief:
            return [progress, self._skipped]
        report = callbacks.ProgressReport(
            self._reporter.event,
            progress.fraction,
            self._reporter.every_seconds or FLAGS.report_seconds,
        )
        stopping = [self._stopping] if self._stopping else []
        return [progress, report, self._skipped, board, *stopping, saving]

    def _validation(self, board: TensorBoard | None) -> Validation:
        return Validation(
            self._trainer,
            self._dev_examples,
            self._batching,
            self._model_dir,
            bleu_sentences=FLAGS.bleu_sentences,
            bleu_tokenizer=self._config["run"]["bleu_tokenizer"],
            sample_sentences=FLAGS.sample_sentences,
            report=self._reporter.message,
            board=board,
            is_chief=self._is_chief,
        )


def profile_steps() -> tuple[int, int] | None:
    """Returns the first and the last step to profile, if any.

    Raises:
        ValueError: If the flag does not name two steps.
    """
    steps = FLAGS.profile_steps
    if not steps:
        return None
    if len(steps) != 2 or not all(step.isdecimal() for step in steps):
        raise ValueError(
            "--profile_steps is the first and the last step to profile, such as 10,12. "
            f"Received: {','.join(steps)}"
        )
    return int(steps[0]), int(steps[1])
