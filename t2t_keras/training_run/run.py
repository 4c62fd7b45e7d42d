"""One training run: everything around the training loop."""

import contextlib
import functools
import json
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import keras

from t2t_keras import interrupts
from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.data.batch_dump import dump_batch
from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.batching import Batching
from t2t_keras.data.dataset import original_errors, training_dataset
from t2t_keras.data.examples import Examples
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.errors import UserError
from t2t_keras.model_dir import ModelDir
from t2t_keras.plurals import counted
from t2t_keras.training import callbacks
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.loop import fit
from t2t_keras.training.strategy import report_lost_workers
from t2t_keras.training.tensorboard import TensorBoard, model_graph
from t2t_keras.training.trainer import Trainer
from t2t_keras.training.worker_agreement import NO_ACTIONS
from t2t_keras.training_run.reporting import Reporter, describe_start
from t2t_keras.training_run.run_state import RunState, initial_state
from t2t_keras.training_run.validation import Validation
from t2t_keras.training_run.warm_start import initialize_weights


class TrainingResult(NamedTuple):
    """Result of a training run.

    Attributes:
        step: Number of completed updates, including those of earlier calls.
        is_finished: True if the budget is spent, or training stopped early. False if
            a signal interrupted it: everything is saved, and the same call resumes.
        metrics: Metrics of the dev split at the last validation, such as "val_nll"
            and "val_bleu" (computed by the chief only); empty if there was none.
    """

    step: int
    is_finished: bool
    metrics: dict[str, float]


class TrainingRun:
    """One run of training, from the beginning or from the newest checkpoint.

    Args:
        trainer: The trainer, with model and strategy.
        data: The prepared data.
        examples: The training split.
        dev_examples: The dev split, or None.
        model_dir: Directory to write to.
        transformer: The completed configuration of the model.
        training: The completed configuration of the training.
        init_from: Model directory whose weights a new training starts from, or None.
        init_checkpoint: The weights to load from it, as for `ModelDir.weights_path`.
        preset_name: Name of the preset, for the report.
        callbacks: Keras callbacks of the user.
        reporter: Reporter for messages and metrics.
        is_chief: Whether this worker reports, computes BLEU, and writes.
    """

    def __init__(
        self,
        trainer: Trainer,
        data: PreparedData,
        examples: Examples,
        dev_examples: Examples | None,
        model_dir: ModelDir,
        transformer: TransformerConfig,
        training: TrainingConfig,
        init_from: str | None,
        init_checkpoint: str,
        preset_name: str,
        callbacks: Sequence[keras.callbacks.Callback],
        reporter: Reporter,
        is_chief: bool,
    ) -> None:
        self._trainer = trainer
        self._data = data
        self._examples = examples
        self._dev_examples = dev_examples
        self._model_dir = model_dir
        self._transformer = transformer
        self._training = training
        self._init_from = init_from
        self._init_checkpoint = init_checkpoint
        self._preset_name = preset_name
        self._callbacks = callbacks
        self._reporter = reporter
        self._is_chief = is_chief
        self._batching = Batching(
            training.batch_tokens,
            training.batch_sentences,
            bool(training.pad_to_boundary),
            transformer.seed,
        )
        self._order = BatchOrder(self._batching, examples.lengths)
        self._budget = TrainingBudget(
            steps=training.train_steps,
            epochs=training.train_epochs,
            tokens=training.train_tokens,
            minutes=training.train_minutes,
        )

    def run(self) -> TrainingResult:
        """Trains until the budget is spent, early stopping, or an interrupt.

        Raises:
            UserError: If the directory belongs to another training, or the workers have
                different flags or data.
            ConnectionError: If another worker is lost.
        """
        trainer, reporter = self._trainer, self._reporter
        with contextlib.ExitStack() as stack:
            stack.enter_context(report_lost_workers(self._model_dir.path))
            datasets = self._examples, self._dev_examples
            stack.enter_context(original_errors(*datasets))
            newest = None
            if self._is_chief:
                stack.enter_context(self._model_dir.lock())
                newest = self._enter_model_dir()
            interrupted = stack.enter_context(interrupts.stop_requested())
            stack.callback(reporter.close)
            state = initial_state(
                trainer,
                self._training,
                self._budget,
                self._order,
                interrupted,
                dump_batch(
                    self._examples,
                    self._order,
                    self._data.tokenizers,
                    self._model_dir.path / "skipped",
                    self._is_chief,
                ),
                reporter.message,
                self._is_chief,
            )
            saving = callbacks.SaveCheckpoint(
                self._model_dir.checkpoints,
                trainer,
                state.to_dict,
                self._model_dir.save_ema if trainer.ema else None,
            )
            self._check_workers()
            if step := trainer.workers.broadcast_from_chief(newest or 0):
                saved = self._model_dir.checkpoints.restore(
                    step, trainer.model.variables, trainer.state_variables
                )
                state.restore(saved)
                if self._is_chief and not self._model_dir.has_current_ema():
                    saving.save_ema()  # The run was killed right after the checkpoint.
                # The chief decides for all, so that no worker waits for another one.
                finished = state.reason_finished()
                if trainer.workers.broadcast_from_chief(bool(finished)):
                    reporter.message(
                        f"{self._model_dir.path} is already trained: {finished}"
                    )
                    return self._result(True, {})
                reporter.message(f"Resuming after step {step:,}.")
            elif self._init_from:
                initialize_weights(
                    trainer,
                    self._data,
                    self._transformer,
                    self._init_from,
                    self._init_checkpoint,
                    reporter.message,
                )
            return self._fit(state, saving)

    def _fit(self, state: RunState, saving: callbacks.SaveCheckpoint) -> TrainingResult:
        """Runs the remaining steps."""
        trainer, reporter = self._trainer, self._reporter
        progress, stopping = state.progress, state.stopping
        reporter.message(
            describe_start(
                trainer,
                self._transformer,
                self._examples,
                self._batching,
                self._budget,
                self._preset_name,
            )
        )
        board = self._board() if self._is_chief else None
        dataset = functools.partial(
            training_dataset, self._examples, self._order, progress.position
        )
        validation = self._validation(board)
        done = fit(
            trainer,
            trainer.distribute(dataset),
            self._all_callbacks(state, board, saving),
            validation,
            progress.requested_actions,
            progress.is_over,
            progress.epoch,
            progress.cooldown.rate_factor,
            progress.cool_down,
        )
        if stopping.is_exhausted:
            reporter.message(f"Early stopping: {stopping.reason()}.")
        if done:
            reporter.message(
                f"Trained {counted(trainer.step, 'step')}: {self._model_dir.path}"
            )
        else:
            if self._is_chief:
                saving.save()
                reporter.message(
                    f"Stopped after step {trainer.step:,} and saved a checkpoint. Run "
                    "the same command again to resume."
                )
            # Wait until the chief has saved: when one worker exits, schedulers may end
            # the others.
            trainer.workers.agree(NO_ACTIONS)
        return self._result(done, validation.metrics)

    def _result(self, is_finished: bool, metrics: dict[str, float]) -> TrainingResult:
        step = self._trainer.step
        checkpoints = self._model_dir.checkpoints
        # Without a validation in this process, use the metrics of the checkpoint.
        if not metrics and step in checkpoints.steps():
            metrics = checkpoints.metrics(step)
        return TrainingResult(step, is_finished, metrics)

    def _enter_model_dir(self) -> int | None:
        """Checks the directory, then creates or updates it.

        Returns:
            The step of the checkpoint to resume from, or None.
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
        if not self._trainer.workers.is_same_on_all_workers(
            zlib.crc32(described.encode()) >> 16
        ):
            raise UserError("The workers were started with different flags or data.")

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

    def _all_callbacks(
        self,
        state: RunState,
        board: TensorBoard | None,
        saving: callbacks.SaveCheckpoint,
    ) -> list[keras.callbacks.Callback]:
        """Returns the callbacks of this worker.

        The user's callbacks come last: the checkpoint is saved even if they raise.
        """
        progress, stopping, skipped = state
        if board is None:
            return [progress, skipped, *self._callbacks]
        report = callbacks.ProgressReport(
            self._reporter.event,
            progress.fraction,
            progress.epochs,
            self._reporter.every_seconds or self._training.report_seconds,
        )
        ours = [progress, report, skipped, board, stopping, saving]
        return [*ours, *self._callbacks]

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
