"""`t2t-serve` with clients that request one sentence after another."""

import itertools
import resource
import shutil
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import common
import multi30k
import numpy as np
import tensorflow as tf

from t2t_keras.client.grpc_client import GrpcClient

WARM_UP = 5.0
READY = "gRPC: "

parser = common.sizes(__doc__)
parser.add_argument("--clients", type=int, default=8)
parser.add_argument("--seconds", type=float, default=20.0)
parser.add_argument("--nobatching", action="store_true")
parser.add_argument("--intra_op", type=int, default=0, help="0: default")
parser.add_argument("--make", action="store_true", help="write the export and stop")
sizes = parser.parse_args()
if sizes.make:
    # Export again, because an old export has graphs of older code.
    shutil.rmtree(multi30k.EXPORT, ignore_errors=True)
    files = f"--model_dir={multi30k.MODEL}", f"--export_dir={multi30k.EXPORT}"
    subprocess.run(
        multi30k.command("export", *files, *multi30k.SEARCH, "--nokeras_file"),
        check=True,
    )
    raise SystemExit

with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
server = subprocess.Popen(
    multi30k.command(
        "serve",
        f"--model_base_path={multi30k.EXPORT}",
        f"--port={port}",
        "--rest_api_port=0",
        f"--enable_batching={not sizes.nobatching}",
        f"--tensorflow_intra_op_parallelism={sizes.intra_op}",
    ),
    stderr=subprocess.PIPE,
    text=True,
)
assert server.stderr
while READY not in server.stderr.readline():
    assert server.poll() is None, "The server has stopped."
threading.Thread(target=server.stderr.read, daemon=True).start()

sentences = multi30k.TEST.read_text().splitlines()
responses: list[tuple[float, float]] = []
"""Time and latency of each response, in seconds."""
end = time.perf_counter() + WARM_UP + sizes.seconds


def send_requests(client: GrpcClient, first: int) -> None:
    """Requests one sentence after another until the time is over."""
    for sentence in itertools.cycle(sentences[first:] + sentences[:first]):
        started = time.perf_counter()
        if started > end:
            return
        client.translate([sentence])
        now = time.perf_counter()
        responses.append((now, now - started))


with GrpcClient(f"127.0.0.1:{port}", "default") as client:
    starts = range(0, len(sentences), len(sentences) // sizes.clients)
    with ThreadPoolExecutor(sizes.clients) as pool:
        for finished in [
            pool.submit(send_requests, client, p) for p in starts[: sizes.clients]
        ]:
            finished.result()
server.send_signal(signal.SIGTERM)
assert server.wait() == 0
# Count only responses between the end of the warm-up and the end of the measurement.
seconds = [s for when, s in responses if end - sizes.seconds < when < end]
common.report(
    rate=len(seconds) / sizes.seconds,
    p50_ms=1000 * np.percentile(seconds, 50),
    p99_ms=1000 * np.percentile(seconds, 99),
    version=tf.__version__,
    peak_memory_mb=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
)
