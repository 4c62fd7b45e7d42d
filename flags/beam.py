"""Flags for running tasks on Apache Beam."""

from collections.abc import Sequence

from absl import flags

from t2t_keras import runtime
from t2t_keras.errors import UserError
from t2t_keras.tasks import LocalTaskRunner, TaskRunner

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "runner",
    None,
    "Apache Beam runner, such as FnApiRunner (this machine), DataflowRunner, "
    "FlinkRunner or SparkRunner. Options of Beam follow after --. The result is the "
    "same with each of them. Default: no Beam, processes of this machine.",
)
flags.DEFINE_integer(
    "processes",
    None,
    "Number of processes without --runner. The result does not depend on it. Default: "
    "one per core.",
    1,
)


def task_runner(arguments: Sequence[str]) -> TaskRunner:
    """Returns the runner that the flags select.

    Args:
        arguments: Positional arguments of the command line, which are options of Beam.

    Raises:
        UserError: If the options are invalid, or the packages of Beam are missing.
    """
    if FLAGS.runner is None:
        if arguments:
            raise UserError(
                f"Unexpected arguments: {' '.join(arguments)}. Options of Beam need "
                "--runner."
            )
        return LocalTaskRunner(FLAGS.processes or runtime.usable_cores())
    if FLAGS.processes is not None:
        raise UserError(
            "--processes cannot be combined with --runner. For several processes of "
            "this machine, pass Beam's options: -- --direct_num_workers=2 "
            "--direct_running_mode=multi_processing"
        )
    from t2t_keras.beam_tasks import BeamTaskRunner

    return BeamTaskRunner(FLAGS.runner, arguments)
