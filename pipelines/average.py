"""Averages the newest checkpoints of a model.

t2t-average --model_dir=DIR --last=5
"""

from absl import flags

from t2t_keras.flags import paths
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

flags.DEFINE_integer(
    "last", None, "How many checkpoints, the newest [the preset's average_last].", 1
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(FLAGS.model_dir)
    wanted = FLAGS.last or model_dir.config["run"]["average_last"]
    steps = model_dir.average(wanted)
    if len(steps) < wanted:
        stage.report(f"There are no more than {len(steps)} of {wanted} checkpoints.")
    stage.report(
        f"Averaged the checkpoints of steps {', '.join(f'{s:,}' for s in steps)}: "
        f"{model_dir.averaged_path}"
    )


def run() -> None:
    """Is the console script."""
    stage.run(main, __name__, [paths.MODEL_DIR], required=["model_dir"])


if __name__ == "__main__":
    run()
