"""Averages checkpoints: the most recent ones or the best on the dev split.

t2t-average --model_dir=DIR --last=5
"""

import time
from typing import TYPE_CHECKING

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import paths
from t2t_keras.pipelines import stage

if TYPE_CHECKING:
    from t2t_keras.model_dir import ModelDir

FLAGS = flags.FLAGS

flags.DEFINE_integer(
    "last",
    None,
    "Number of most recent checkpoints to average. Default: average_last of the "
    "training.",
    1,
)
flags.DEFINE_integer(
    "best",
    None,
    "Number of best checkpoints on the dev split to average, instead of --last. "
    "Default: --last.",
    1,
)
flags.DEFINE_bool(
    "follow",
    False,
    "Keep running, and average again whenever a running training saves a checkpoint.",
)

_POLL_SECONDS = 2.0
_UNSETTLED = 1.05
"""Ratio of the worst to the best dev loss above which averaging is not advisable.

Weights so far apart do not yet lie in the same region of the loss surface.
"""


def main() -> None:
    """Runs the stage."""
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(FLAGS.model_dir)
    if FLAGS.last and FLAGS.best:
        raise UserError("Give either --last or --best. Received: both")
    wanted = FLAGS.best or FLAGS.last or model_dir.training_config.average_last
    seen: list[int] = []
    while True:
        is_running = FLAGS.follow and model_dir.is_locked()
        found = model_dir.checkpoints.steps()
        if not FLAGS.follow or (found and found != seen):
            _average(model_dir, wanted)
            seen = found
        if not is_running:
            return
        time.sleep(_POLL_SECONDS)


def _average(model_dir: "ModelDir", wanted: int) -> None:
    steps = model_dir.average(best=wanted) if FLAGS.best else model_dir.average(wanted)
    if len(steps) < wanted:
        stage.report(
            f"Fewer checkpoints than requested: {len(steps):,} instead of {wanted:,}."
        )
    nll = [model_dir.checkpoints.metrics(step).get("val_nll") for step in steps]
    shown = ", ".join(
        f"{step:,}" + (f" (dev nll {value:.3f})" if value else "")
        for step, value in zip(steps, nll, strict=True)
    )
    stage.report(
        f"Averaged the checkpoints of steps {shown}. Wrote {model_dir.averaged_path}"
    )
    known = [value for value in nll if value]
    if known and max(known) > _UNSETTLED * min(known):
        stage.report(
            "The dev losses of these checkpoints differ widely: training has not "
            "converged yet, and the average may be worse than the newest checkpoint "
            "(--checkpoint=latest)."
        )


def run() -> None:
    """Console entry point."""
    stage.run(main, __name__, [paths.MODEL_DIR], required=["model_dir"])


if __name__ == "__main__":
    run()
