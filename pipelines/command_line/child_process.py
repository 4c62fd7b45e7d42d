"""Runs a stage in a child process."""

import subprocess
import sys

from t2t_keras import interrupts


def run(name: str, *arguments: str) -> int:
    """Runs a stage in a child process and waits for it.

    SIGTERM and SIGINT are forwarded, so that the child can save its work. Its standard
    output goes to standard error, since standard output is reserved for the results of
    the calling stage.

    Args:
        name: Name of the stage, such as "train".
        *arguments: Command-line arguments of the stage.

    Returns:
        The exit status, or 128 plus the signal number if a signal killed the child.
    """
    command = [sys.executable, "-m", f"t2t_keras.pipelines.{name}", *arguments]
    # In its own process group, so that Ctrl-C reaches it once: forwarded below.
    process = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
    with interrupts.handle_signals(lambda number, _: process.send_signal(number)):
        status = process.wait()
    return status if status >= 0 else 128 - status
