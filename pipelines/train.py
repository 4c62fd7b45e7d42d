"""Trains a Transformer on prepared data, or goes on where a run stopped.

t2t-train --data_dir=DIR --model_dir=DIR --preset=tiny --train_minutes=10
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import (
    distribution,
    hyperparameters,
    paths,
    preset,
    presets,
    scores,
    training,
)
from t2t_keras.pipelines import stage

if TYPE_CHECKING:
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
    has_dev = "dev" in data.manifest["splits"]
    bleu_tokenizer, note = _bleu_tokenizer(data.manifest["target_lang"])
    if note and is_chief and has_dev and FLAGS.bleu_sentences:
        stage.report(note)
    model_arguments: dict[str, Any] = {
        "source_vocab_size": data.tokenizers.source.vocab_size,
        "target_vocab_size": data.tokenizers.target.vocab_size,
        **{name: values[name] for name in presets.MODEL},
        "seed": FLAGS.seed,
    }
    schedule = WarmupSchedule(
        values["d_model"], values["warmup_steps"], values["learning_rate"]
    )
    replicas = strategy.num_replicas_in_sync
    objective = Objective(values["label_smoothing"], values["r_drop"])
    tokens = objective.passes * values["batch_tokens"] / replicas
    with strategy.scope():
        trainer = Trainer(
            Transformer(**model_arguments, dtype=FLAGS.precision),
            Adam(schedule),
            objective,
            values["clip_norm"],
            accumulate=FLAGS.accumulate or math.ceil(tokens / _TOKENS_PER_PART),
            strategy=strategy,
            jit=FLAGS.jit,
            ema_decay=FLAGS.ema_decay,
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
            keep=max(FLAGS.keep_checkpoints, values["average_last"]),
            keep_best=FLAGS.keep_best,
            metric=FLAGS.early_stop_metric,
        ),
        config={
            "model": model_arguments,
            "training": _training_values(values, pad_to_boundary),
            "run": {
                **{name: values[name] for name in presets.RUN},
                "search": presets.SEARCH.get(FLAGS.preset, {}),
                "early_stop_metric": FLAGS.early_stop_metric,
                "bleu_tokenizer": bleu_tokenizer,
            },
        },
        reporter=Reporter(FLAGS.log_format, silent=not is_chief),
        is_chief=is_chief,
    )
    return run.run()


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


def _bleu_tokenizer(target_lang: str) -> "TokenizerChoice":
    """Chooses the tokenizer of val_bleu.

    Raises:
        UserError: If it cannot be loaded, or checkpoints of the same run would be
            compared by figures of different tokenizers.
    """
    from t2t_keras.evaluation.bleu_tokenizers import AUTO, choose_tokenizer
    from t2t_keras.model_dir import ModelDir

    wanted, model_dir = FLAGS.bleu_tokenizer, ModelDir(FLAGS.model_dir)
    if model_dir.checkpoints.steps():
        run = model_dir.config["run"]
        if "val_bleu" in (FLAGS.early_stop_metric, run["early_stop_metric"]):
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


def _check_values(values: dict[str, Any], data: Any) -> None:
    """Brings the values in line with the data, or says why they cannot be."""
    from t2t_keras.model_dir import ModelDir

    if Path(FLAGS.model_dir).resolve() == data.data_dir.resolve():
        raise UserError(
            f"{FLAGS.model_dir} holds the prepared data. Choose another --model_dir."
        )
    if not data.tokenizers.shared:
        if FLAGS.share_embeddings:
            raise UserError(
                f"--share_embeddings needs one vocabulary; {FLAGS.data_dir} was "
                "prepared with one for each language."
            )
        values["share_embeddings"] = False
    if FLAGS.init_from and not ModelDir(FLAGS.model_dir).checkpoints.steps():
        # Later on, the weights are its own, and the other directory may be gone.
        ModelDir(FLAGS.init_from).weights_path(FLAGS.init_checkpoint)
    if FLAGS.early_stop_patience:
        if not data.manifest["splits"].get("dev", {}).get("pairs"):
            raise UserError(
                "--early_stop_patience needs a dev split with sentences, which "
                f"{FLAGS.data_dir} lacks."
            )
        if FLAGS.early_stop_metric == "val_bleu" and not FLAGS.bleu_sentences:
            raise UserError(
                "--early_stop_metric=val_bleu needs --bleu_sentences. Received: 0"
            )
    training.profile_steps()


def run() -> None:
    """Is the console script."""
    stage.run(
        main,
        __name__,
        [preset, hyperparameters, training, scores, distribution, paths],
        required=["data_dir", "model_dir"],
    )


if __name__ == "__main__":
    run()
