"""Trains a Transformer on prepared data, or resumes an interrupted run.

t2t-train --data_dir=DIR --model_dir=DIR --preset=tiny --train_minutes=10
"""

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import distribution, hyperparameters, paths, preset_flag, scores
from t2t_keras.flags import training as training_flags
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line.exit_status import EXIT_SAVED

FLAGS = flags.FLAGS


def main() -> int:
    """Runs the stage.

    Returns:
        The exit status.
    """
    from t2t_keras.data.prepared_data import PreparedData
    from t2t_keras.training.strategy import make_strategy
    from t2t_keras.training_run.train import train
    from t2t_keras.training_run.warm_start import preset_from

    # Workers must connect to each other before any device is used.
    strategy = make_strategy(**distribution.strategy_arguments())
    if FLAGS.share_embeddings and not PreparedData(FLAGS.data_dir).tokenizers.shared:
        raise UserError(
            "--share_embeddings needs a shared vocabulary, but "
            f"{FLAGS.data_dir} was prepared with one for each language."
        )
    default, name = None, FLAGS.preset
    if FLAGS.init_from and not FLAGS["preset"].present:
        default, name = preset_from(FLAGS.init_from, FLAGS.model_dir), None
    result = train(
        preset_flag.chosen_preset(default),
        FLAGS.data_dir,
        FLAGS.model_dir,
        strategy=strategy,
        init_from=FLAGS.init_from,
        init_checkpoint=FLAGS.init_checkpoint,
        read_text=FLAGS.read_text,
        preset_name=name,
    )
    return 0 if result.is_finished else EXIT_SAVED


def run() -> None:
    """Console entry point."""
    stage.run(
        main,
        __name__,
        [preset_flag, hyperparameters, training_flags, scores, distribution, paths],
        required=["data_dir", "model_dir"],
    )


if __name__ == "__main__":
    run()
