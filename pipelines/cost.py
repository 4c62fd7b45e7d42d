"""Estimates the training cost of a model in FLOPs and compares it with Table 2.

t2t-cost --preset=base
t2t-cost --model_dir=DIR

With --preset, the cost of all training steps of the preset with full batches. With
--model_dir, the cost of the training so far, on the data that the model was trained on.
"""

from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import hyperparameters, paths, preset_flag, vocabulary
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
from t2t_keras.plurals import counted

if TYPE_CHECKING:
    from t2t_keras.config import TrainingConfig, TransformerConfig

FLAGS = flags.FLAGS

flags.DEFINE_float(
    "mean_length",
    25.0,
    "Mean sentence length in tokens for --preset. With --model_dir, the training "
    "data determine it.",
    1,
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.analysis.flops import (
        PAPER_COSTS,
        count_parameters,
        paper_flops,
        training_flops,
    )

    standard_streams.check_output("-")
    names = (
        *("preset", "subword", "vocab_size"),
        *(*hyperparameters.MODEL, *hyperparameters.TRAINING, "mean_length"),
    )
    given = [name for name in names if FLAGS[name].present]
    if FLAGS.model_dir and given:
        raise UserError(
            "--model_dir already determines the model and its training. Remove "
            f"--{', --'.join(given)}."
        )
    name, transformer, run = _of_model() if FLAGS.model_dir else _of_preset()
    steps, pairs, lengths = run["steps"], run["pairs"], run["lengths"]
    source_length, target_length = lengths
    flops = training_flops(transformer, source_length, target_length, pairs)
    print(
        f"{name}: {count_parameters(transformer):,} parameters, "
        f"{counted(steps, 'step')}, {pairs * sum(lengths):.3g} tokens\n\n"
        "| training | FLOPs | method |\n|---|---|---|\n"
        f"| {name} | {flops:.2g} | counted: every matrix product of the forward pass, "
        "plus twice as many for the backward pass |"
    )
    for model, cost in PAPER_COSTS.items():
        print(
            f"| the paper's {model} | {paper_flops(**cost):.2g} | {cost['hours']:g} "
            f"hours of {cost['processors']} P100 at "
            f"{cost['sustained_flops'] / 1e12:g} TFLOPS each |"
        )
    print(
        "\nThe paper's figures are training time times the sustained rate of the "
        "processors. The counted\nFLOPs are those that the model needs. Their quotient "
        "is the utilization."
    )


def _passes(training: "TrainingConfig") -> int:
    from t2t_keras.training.objective import Objective

    return Objective(r_drop=training.r_drop).passes


def _of_preset() -> tuple[str, "TransformerConfig", dict[str, Any]]:
    chosen = preset_flag.chosen_preset()
    training, length = chosen.training, FLAGS.mean_length
    steps = training.train_steps or 0
    run = {
        "steps": steps,
        "pairs": _passes(training) * steps * training.batch_tokens / length,
        "lengths": (length, length),
    }
    transformer = chosen.transformer.replace(source_vocab_size=chosen.vocab_size)
    return FLAGS.preset, transformer, run


def _of_model() -> tuple[str, "TransformerConfig", dict[str, Any]]:
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(FLAGS.model_dir)
    transformer, steps = model_dir.transformer_config, model_dir.checkpoints.steps()
    if not steps:
        raise model_dir.no_checkpoint_error()
    train = model_dir.config["data"]["splits"]["train"]
    epochs = model_dir.checkpoints.progress(steps[-1])["epochs"]
    run = {
        "steps": steps[-1],
        "pairs": _passes(model_dir.training_config) * epochs * train["pairs"],
        # Plus one for the end token.
        "lengths": tuple(
            train[f"{side}_tokens"] / train["pairs"] + 1
            for side in ("source", "target")
        ),
    }
    return FLAGS.model_dir, transformer, run


def run() -> None:
    """Console entry point."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        preset_flag,
        vocabulary,
        hyperparameters,
    ]
    stage.run(main, __name__, shared)


if __name__ == "__main__":
    run()
