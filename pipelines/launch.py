"""Starts several training workers on this machine, to test multi-worker training.

t2t-launch --num_workers=2 -- --data_dir=DIR --model_dir=DIR --preset=tiny

Arguments after -- are flags of t2t-train. Messages of all workers but the first are
prefixed with the worker's index.
"""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import IO

from absl import flags

from t2t_keras import interrupts
from t2t_keras.errors import UserError
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

flags.DEFINE_integer("num_workers", 2, "Number of worker processes to start.", 1)
flags.DEFINE_float(
    "grace_seconds",
    60,
    "Seconds that the remaining workers get to shut down after one has failed.",
    0,
)

_POLL_SECONDS = 0.1


def main(arguments: list[str]) -> int:
    """Runs the stage.

    Args:
        arguments: Flags of t2t-train.

    Returns:
        The exit status of the first worker that failed, or 0.
    """
    reserved = [a for a in arguments if a.startswith(("--workers", "--worker_index"))]
    if reserved:
        raise UserError(
            "t2t-launch sets --workers and --worker_index itself. Received: "
            + " ".join(reserved)
        )
    if not arguments:
        raise UserError(
            "Give the flags of t2t-train after --, such as: t2t-launch -- "
            "--data_dir=DIR --model_dir=DIR"
        )
    ports = _free_ports(FLAGS.num_workers)
    workers = ",".join(f"127.0.0.1:{port}" for port in ports)
    processes = []
    for index in range(FLAGS.num_workers):
        command = [sys.executable, "-m", "t2t_keras.pipelines.train", *arguments]
        command += [f"--workers={workers}", f"--worker_index={index}"]
        # In its own process group, so that Ctrl-C reaches it once: forwarded below.
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, start_new_session=True
        )
        prefix = f"[worker {index}] " if index else ""
        reader = threading.Thread(target=_copy, args=(process.stderr, prefix))
        reader.start()
        processes.append((process, reader))

    def forward(number: int, frame: FrameType | None) -> None:
        for process, _ in processes:
            if process.poll() is None:
                process.send_signal(number)

    # The workers save a checkpoint and exit.
    with interrupts.handle_signals(forward):
        status = _wait([process for process, _ in processes])
    for _, reader in processes:
        reader.join()
    return status


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _copy(lines: IO[bytes], prefix: str) -> None:
    # Keep reading even if writing fails: a worker blocks when its pipe is full.
    for line in lines:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(prefix.encode() + line)
            sys.stderr.buffer.flush()


def _wait(processes: list[subprocess.Popen]) -> int:
    """Waits for all workers; kills the others some time after one has failed."""
    failed, deadline = 0, None
    while any(process.poll() is None for process in processes):
        statuses = [process.returncode for process in processes]
        failed = failed or next((s for s in statuses if s), 0)
        if failed and deadline is None:
            deadline = time.monotonic() + FLAGS.grace_seconds
        if deadline is not None and time.monotonic() > deadline:
            for process in processes:
                process.kill()
        time.sleep(_POLL_SECONDS)
    failed = failed or next((p.returncode for p in processes if p.returncode), 0)
    # The status of a process killed by a signal is negative; a shell returns 128 + it.
    return failed if failed >= 0 else 128 - failed


def run() -> None:
    """Console entry point."""
    stage.run(main, __name__, takes_arguments=True)


if __name__ == "__main__":
    run()
