"""Training as one call: what t2t-train does, for programs and notebooks."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import keras
import tensorflow as tf

from t2t_keras.config import PRESETS, Preset, TrainingConfig, TransformerConfig
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.data.splits import open_examples
from t2t_keras.errors import UserError
from t2t_keras.model_dir import ModelDir
from t2t_keras.training.learning_rate_schedule import WarmupSchedule
from t2t_keras.training.objective import Objective
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.strategy import has_undetected_gpu, make_strategy, worker_index
from t2t_keras.training.trainer import Trainer
from t2t_keras.training_run import completion
from t2t_keras.training_run.reporting import Reporter
from t2t_keras.training_run.run import TrainingResult, TrainingRun
from t2t_keras.transformer import Transformer

_TOKENS_PER_PART = 4096


def train(
    preset: str | Preset,
    data_dir: str | Path,
    model_dir: str | Path,
    *,
    strategy: tf.distribute.Strategy | None = None,
    init_from: str | Path | None = None,
    init_checkpoint: str = "auto",
    read_text: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    report: Callable[[str], None] | None = None,
    preset_name: str | None = None,
) -> TrainingResult:
    """Trains a Transformer on prepared data, or resumes an earlier call.

    The model directory receives all that later stages need: configuration, tokenizers,
    checkpoints and TensorBoard logs. A call with the same arguments resumes from the
    newest checkpoint and takes exactly the steps of an uninterrupted training; with a
    larger budget it trains further.

    In the main thread, SIGTERM and SIGINT (Ctrl-C, or a notebook's interrupt) save and
    end the call after the current step; a second SIGINT raises KeyboardInterrupt at
    once. Outside the main thread, signals are not handled.

    Args:
        preset: A name in `PRESETS`, or a `Preset`: the configurations of the model and
            of the training, such as `PRESETS["tiny"].replace(train_steps=2000)` or
            `Preset(transformer=TransformerConfig(...), training=TrainingConfig(...))`.
            Vocabulary sizes are taken from the data. Training ends at the first limit
            reached of `train_steps`, `train_epochs`, `train_tokens` and
            `train_minutes`; None means no limit.
        data_dir: Directory that `t2t-prepare` wrote.
        model_dir: The model directory: a new one, or the one to resume.
        strategy: The distribution strategy. Default `make_strategy()`:
            the workers of TF_CONFIG, all visible GPUs, or the CPU.
        init_from: Model directory whose weights a new training starts from. Default:
            random weights.
        init_checkpoint: The weights to load from `init_from`: "averaged", "ema",
            "latest", a step, or a path. Default "auto": the first of "averaged" and
            "ema" that is as new as the newest checkpoint, otherwise "latest".
        read_text: Whether to tokenize the corpus again in every epoch instead of
            reading the prepared records. Default False.
        callbacks: Keras callbacks. To them a batch is a step, and an epoch is the
            interval between two validations. If one sets `model.stop_training`,
            training ends at the next validation. Each worker calls its own.
        report: Called with each line of the report. Default: print to standard error,
            with a progress bar on a terminal.
        preset_name: Name of the preset in the report. Default: `preset` if it is a
            name, otherwise "custom".

    Returns:
        The step reached, whether training is finished, and the last metrics.

    Raises:
        UserError: If the arguments, the data or the directory do not fit each other;
            another training is running in the directory; or its checkpoints are
            damaged.
        NonFiniteGradientsError: If too many consecutive steps had gradients that are
            not finite.
        ConnectionError: If another worker is lost.
    """
    if isinstance(preset, str):
        if preset not in PRESETS:
            raise UserError(
                f"preset must be one of {', '.join(sorted(PRESETS))}. "
                f"Received: {preset!r}"
            )
        preset_name = preset_name or preset
        preset = PRESETS[preset]
    model_path, training = Path(model_dir), preset.training
    if training.deterministic:
        tf.config.experimental.enable_op_determinism()
    # Workers must connect before anything else uses a device.
    strategy = strategy or make_strategy()
    is_chief = worker_index(strategy) == 0
    reporter = Reporter(training.log_format, not is_chief, report)
    if has_undetected_gpu():
        reporter.message(
            "TensorFlow cannot use the GPU of this machine: training runs on the CPU. "
            'Install the CUDA libraries with: pip install ".[gpu]"'
        )
    data = PreparedData(data_dir)
    transformer = completion.with_vocabulary(preset.transformer, data)
    init_from = None if init_from is None else str(init_from)
    completion.check(training, data, model_path, init_from, init_checkpoint)
    has_dev = "dev" in data.manifest["splits"]
    target_lang = data.manifest["target_lang"]
    tokenizer, note = completion.bleu_tokenizer(training, target_lang, model_path)
    if note and has_dev and training.bleu_sentences:
        reporter.message(note)
    training = training.replace(
        bleu_tokenizer=tokenizer, pad_to_boundary=_pads_to_boundary(training, strategy)
    )
    run = TrainingRun(
        trainer=make_trainer(transformer, training, strategy),
        data=data,
        examples=open_examples(data, "train", from_text=read_text),
        dev_examples=open_examples(data, "dev") if has_dev else None,
        model_dir=ModelDir(
            model_path,
            keep=max(training.keep_checkpoints, training.average_last),
            keep_best=training.keep_best,
            metric=training.early_stop_metric,
        ),
        transformer=transformer,
        training=training,
        init_from=init_from,
        init_checkpoint=str(init_checkpoint),
        preset_name=preset_name or "custom",
        callbacks=callbacks,
        reporter=reporter,
        is_chief=is_chief,
    )
    return run.run()


def _pads_to_boundary(
    training: TrainingConfig, strategy: tf.distribute.Strategy
) -> bool:
    """Returns whether to pad batches to few shapes: XLA compiles each shape."""
    if training.pad_to_boundary is not None:
        return training.pad_to_boundary
    return training.jit or isinstance(strategy, tf.distribute.TPUStrategy)


def make_trainer(
    transformer: TransformerConfig,
    training: TrainingConfig,
    strategy: tf.distribute.Strategy,
) -> Trainer:
    """Returns a trainer with a new model.

    Args:
        transformer: The configuration of the model, with vocabulary sizes.
        training: The configuration of the training.
        strategy: The distribution strategy.
    """
    schedule = WarmupSchedule(
        transformer.d_model, training.warmup_steps, training.learning_rate
    )
    objective = Objective(training.label_smoothing, training.r_drop)
    replicas = strategy.num_replicas_in_sync
    tokens = objective.passes * training.batch_tokens / replicas
    with strategy.scope():
        return Trainer(
            Transformer(transformer, dtype=training.precision),
            Adam(schedule),
            objective,
            training.clip_norm,
            accumulate=training.accumulate or math.ceil(tokens / _TOKENS_PER_PART),
            strategy=strategy,
            jit=training.jit,
            ema_decay=training.ema_decay,
        )
