"""A run of the training stage: what surrounds the loop."""

import contextlib
import functools
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.counted import counted
from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.batching import Batching
from t2t_keras.data.dataset import training_dataset
from t2t_keras.data.examples import Examples
from t2t_keras.data.preparation import PreparedData
from t2t_keras.errors import UserError
from t2t_keras.model_dir import ModelDir
from t2t_keras.pipelines import interrupts
from t2t_keras.pipelines.progress import Progress
from t2t_keras.pipelines.reporting import Reporter, describe_start
from t2t_keras.pipelines.training_data import dump_batch
from t2t_keras.pipelines.validation import Validation
from t2t_keras.training import callbacks
from t2t_keras.training.arrays import load_arrays
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.loop import fit
from t2t_keras.training.strategy import lost_workers_named
from t2t_keras.training.tensorboard import TensorBoard, model_graph
from t2t_keras.training.trainer import NO_VOTES, Trainer
from t2t_keras.training.warm_start import warm_start


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
        transformer: The configuration of the model.
        training: The configuration of the training.
        init_from: Model directory whose weights a new training starts from, if any.
        init_checkpoint: Which of its weights.
        preset: Name of the preset, to be reported.
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
        transformer: TransformerConfig,
        training: TrainingConfig,
        init_from: str | None,
        init_checkpoint: str,
        preset: str,
        reporter: Reporter,
        is_chief: bool,
    ) -> None:
        self._trainer = trainer
        self._data = data
        self._examples = examples
        self._dev_examples = dev_examples
        self._batching = batching
        self._order = BatchOrder(batching, examples.lengths)
        self._budget = budget
        self._model_dir = model_dir
        self._transformer = transformer
        self._training = training
        self._init_from = init_from
        self._init_checkpoint = init_checkpoint
        self._preset = preset
        self._reporter = reporter
        self._is_chief = is_chief

    def run(self) -> int:
        """Trains, and returns the exit status.

        Raises:
            UserError: If the directory, or another worker, does not fit this run.
            ConnectionError: If another worker is lost.
        """
        trainer, reporter = self._trainer, self._reporter
        with contextlib.ExitStack() as stack:
            stack.enter_context(lost_workers_named(self._model_dir.path))
            newest = None
            if self._is_chief:
                stack.enter_context(self._model_dir.lock())
                newest = self._enter_model_dir()
            interrupted = stack.enter_context(interrupts.asked_to_stop())
            stack.callback(reporter.close)
            progress = Progress(
                self._budget,
                trainer,
                self._order,
                self._training.checkpoint_steps,
                self._training.checkpoint_minutes,
                interrupted,
                self._is_chief,
                self._training.cooldown,
                reporter.message,
            )
            skipped = callbacks.SkippedSteps(
                self._training.max_skipped_steps,
                reporter.message,
                lambda: progress.position,
                self._dump_batch(),
            )
            stopping = callbacks.EarlyStopping(
                self._training.early_stop_metric,
                self._training.early_stop_patience,
                # A cooldown goes to its end.
                lambda: progress.is_regular() and not progress.cooldown,
                self._training.early_stop_threshold,
            )
            saving = callbacks.SaveCheckpoint(
                self._model_dir.checkpoints,
                trainer,
                lambda: {
                    **progress.state(),
                    "early_stopping": stopping.state(),
                    "skipped_in_a_row": skipped.in_a_row,
                },
                self._model_dir.save_ema if trainer.ema else None,
            )
            self._check_workers()
            if step := trainer.of_chief(newest or 0):
                self._restore(step, progress, stopping, skipped)
                if self._is_chief and not self._model_dir.has_current_ema():
                    saving.save_ema()  # It was killed after writing the checkpoint.
                # The chief decides: no worker waits for one that has ended.
                ended = self._why_ended(progress, stopping)
                if trainer.of_chief(bool(ended)):
                    reporter.message(ended)
                    return 0
                reporter.message(f"Going on after step {step:,}.")
            elif self._init_from:
                self._warm_start(self._init_from)
            reporter.message(
                describe_start(
                    trainer,
                    self._transformer,
                    self._examples,
                    self._batching,
                    self._budget,
                    self._preset,
                )
            )
            board = self._board() if self._is_chief else None
            dataset = trainer.distribute(
                functools.partial(
                    training_dataset, self._examples, self._order, progress.position
                )
            )
            done = fit(
                trainer,
                dataset,
                self._watchers(progress, board, stopping, saving, skipped),
                self._validation(board),
                progress.votes,
                progress.is_over,
                progress.epoch,
                progress.rate_factor,
                progress.cool_down,
            )
            if stopping.is_exhausted:
                reporter.message(f"Early stopping: {stopping.reason()}.")
            if done:
                reporter.message(
                    f"Trained {counted(trainer.step, 'step')}: {self._model_dir.path}"
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

    def _enter_model_dir(self) -> int | None:
        """Checks the directory, then makes or updates it.

        Returns:
            The step of the checkpoint to continue from, or None.
        """
        model_dir, wanted = self._model_dir, (self._transformer, self._training)
        model_dir.check_same_training(*wanted, self._data)
        newest = model_dir.checkpoint_to_resume(self._reporter.message)
        model_dir.initialize(*wanted, self._data)
        trainer = self._trainer
        model_dir.check_space([*trainer.model.variables, *trainer.state_variables])
        return newest

    def _check_workers(self) -> None:
        described = json.dumps(
            [
                self._transformer.to_dict(),
                self._training.sections()[0],
                self._data.manifest,
            ]
        )
        if not self._trainer.are_equal(zlib.crc32(described.encode()) >> 16):
            raise UserError("The workers were started with different flags or data.")

    def _restore(
        self,
        step: int,
        progress: Progress,
        stopping: callbacks.EarlyStopping,
        skipped: callbacks.SkippedSteps,
    ) -> None:
        """Takes over a checkpoint."""
        trainer = self._trainer
        saved = self._model_dir.checkpoints.restore(
            step, trainer.model.variables, trainer.state_variables
        )
        skipped.in_a_row = saved["skipped_in_a_row"]
        if saved["early_stopping"]:  # None in those of earlier versions.
            stopping.restore(saved["early_stopping"])
        progress.restore(saved, stopping.is_exhausted)

    def _why_ended(self, progress: Progress, stopping: callbacks.EarlyStopping) -> str:
        """Tells why there is nothing left to train, if so."""
        trained = f"{self._model_dir.path} is trained already"
        steps = counted(self._trainer.step, "step")
        if stopping.is_exhausted and not progress.is_cooling_down():
            return (
                f"{trained}: early stopping ended it after {steps}, since "
                f"{stopping.reason()}. A larger --early_stop_patience, or none, goes "
                "on."
            )
        if progress.fraction() >= 1:
            return (
                f"{trained}, for {steps}. A larger --train_steps, --train_epochs, "
                "--train_tokens or --train_minutes goes on."
            )
        return ""

    def _warm_start(self, init_from: str) -> None:
        """Gives the new model the weights of another, as far as they fit."""
        model, other = self._trainer.model, ModelDir(init_from)
        mine, theirs = self._data.tokenizers, other.tokenizers
        unmatched = warm_start(
            model.trainable_variables,
            load_arrays(other.weights_path(self._init_checkpoint)),
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
            f"Began with the weights of {init_from}"
            + (f", without {', '.join(unmatched)}." if unmatched else ".")
        )

    def _board(self) -> TensorBoard:
        trainer = self._trainer
        return TensorBoard(
            self._model_dir.log_dir,
            lambda: trainer.step,
            {
                **self._transformer.to_dict(),
                **self._training.to_dict(),
                "replicas": trainer.replicas,
            },
            functools.partial(model_graph, trainer.model),
            profile=self._training.profile_steps,
        )

    def _watchers(
        self,
        progress: Progress,
        board: TensorBoard | None,
        stopping: callbacks.EarlyStopping,
        saving: callbacks.SaveCheckpoint,
        skipped: callbacks.SkippedSteps,
    ) -> list[Any]:
        """Returns the callbacks: all of them on the chief, which saves last."""
        if not self._is_chief:
            return [progress, skipped]
        report = callbacks.ProgressReport(
            self._reporter.event,
            progress.fraction,
            progress.epochs,
            self._reporter.every_seconds or self._training.report_seconds,
        )
        return [progress, report, skipped, board, stopping, saving]

    def _dump_batch(self) -> Callable[[int, int], Path]:
        return dump_batch(
            self._examples,
            self._order,
            self._data,
            self._model_dir.path / "skipped",
            self._is_chief,
        )

    def _validation(self, board: TensorBoard | None) -> Validation:
        return Validation(
            self._trainer,
            self._dev_examples,
            self._batching,
            self._model_dir,
            bleu_sentences=self._training.bleu_sentences,
            bleu_tokenizer=self._training.bleu_tokenizer,
            sample_sentences=self._training.sample_sentences,
            report=self._reporter.message,
            board=board,
            is_chief=self._is_chief,
        )
