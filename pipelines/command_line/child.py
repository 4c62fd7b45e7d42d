"""A stage that another stage runs."""

import subprocess
import sys

from t2t_keras import interrupts


def run(name: str, *arguments: str) -> int:
    """Runs a stage in a process of its own, to its end.

    SIGTERM and SIGINT are handed on, so that it can save what it has. What it prints
    goes to standard error, since standard output is for this stage's own results.

    Args:
        name: The stage, such as "train".
        *arguments: Its command line.

    Returns:
        Its exit status; of one that a signal ended 128 and the signal's number.
    """
    command = [sys.executable, "-m", f"t2t_keras.pipelines.{name}", *arguments]
    # Of its own group: a Ctrl-C is handed on below, and not sent twice.
    process = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
    with interrupts.signals_go_to(lambda number, _: process.send_signal(number)):
        status = process.wait()
    return status if status >= 0 else 128 - status
