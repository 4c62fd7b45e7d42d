"""The server under load: `make test-load`, takes minutes, uses the `make demo` model.

T2T_LOAD_SECONDS sets the duration of the main run; default 120.
"""

import asyncio
import os
import random
import shutil
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
import served
import tensorflow as tf
import urllib3
from tensorflow_serving.apis import prediction_service_pb2_grpc

from t2t_keras.data.text_lines import read_lines

DEMO = Path(os.environ.get("T2T_DEMO_DIR", Path(__file__).parents[2] / ".demo"))
SECONDS = float(os.environ.get("T2T_LOAD_SECONDS", "120"))
CLIENTS = 64
SIZES = (1, 2, 4, 8, 16)

pytestmark = [
    pytest.mark.load,
    pytest.mark.skipif(
        not (DEMO / "export" / "1").is_dir(),
        reason=f"needs the export that `make demo` writes to {DEMO}.",
    ),
]


@pytest.fixture(scope="module")
def sentences():
    return list(read_lines(DEMO / "model" / "test.source.txt"))[:400]


def base_of(tmp_path):
    """Creates a directory with version 1 of the demo model."""
    base = tmp_path / "demo"
    base.mkdir()
    shutil.copytree(DEMO / "export" / "1", base / "1")
    return f"--model_base_path={base}", base


class GrpcClient:
    def __init__(self, server):
        self._channel = server.channel()
        self._stub = served.prediction(self._channel)

    def translate(self, rows):
        response = self._stub.Predict(
            served.predict_request("demo", text=rows), timeout=60
        )
        outputs = {n: tf.make_ndarray(t) for n, t in response.outputs.items()}
        texts = [text.decode() for text in outputs["translation"]]
        return texts, outputs["score"], response.model_spec.version.value


class RestClient:
    def __init__(self, server):
        self._url = f"{server.url}/v1/models/demo:predict"
        self._pool = urllib3.PoolManager(retries=False)

    def translate(self, rows):
        response = self._pool.request(
            "POST", self._url, json={"inputs": {"text": rows}}
        )
        assert response.status == 200, response.data
        outputs = response.json()["outputs"]
        return outputs["translation"], np.array(outputs["score"]), None


class Load:
    """Clients that send requests without pause and check each response.

    Attributes:
        latencies: Latency of each request in seconds.
        rows: Number of translated sentences.
        wrong: Failed requests and unexpected results.
        versions: Versions that handled requests.
    """

    def __init__(self, server, expected):
        self.latencies, self.rows, self.wrong, self.versions = [], 0, [], set()
        self._expected, self._sentences = expected, list(expected)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(CLIENTS)
        kinds = (GrpcClient, RestClient)
        self._running = [
            self._pool.submit(self._ask, kinds[number % 2](server), number)
            for number in range(CLIENTS)
        ]

    def _ask(self, client, seed):
        rng = random.Random(seed)
        while not self._stop.is_set():
            rows = rng.choices(self._sentences, k=rng.choice(SIZES))
            started = time.perf_counter()
            try:
                texts, scores, version = client.translate(rows)
            except Exception as error:
                self.wrong.append(repr(error))
                continue
            seconds = time.perf_counter() - started
            best = [self._expected[row] for row in rows]
            if texts != [text for text, _ in best] or not np.allclose(
                scores, [score for _, score in best], atol=1e-3
            ):
                self.wrong.append((rows, texts))
            with self._lock:
                self.latencies.append(seconds)
                self.rows += len(rows)
                self.versions.add(version)

    def stop(self):
        self._stop.set()
        for future in self._running:
            future.result(120)


def expected_of(server, sentences):
    client = GrpcClient(server)
    responses = (client.translate([sentence]) for sentence in sentences)
    return {
        sentence: (texts[0], float(scores[0]))
        for sentence, (texts, scores, _) in zip(sentences, responses, strict=True)
    }


def test_version_change_under_load_loses_and_mixes_up_no_response(sentences, tmp_path):
    flag, base = base_of(tmp_path)
    with served.server("--model_name=demo", flag) as server:
        expected = expected_of(server, sentences)
        assert len({text for text, _ in expected.values()}) > 300
        load = Load(server, expected)
        started = time.perf_counter()
        # The wait is the duration of the load, not a synchronization.
        threading.Event().wait(SECONDS / 2)
        shutil.copytree(base / "1", base / ".2")
        (base / ".2").rename(base / "2")
        server.wait_for("version 1 is being unloaded")
        threading.Event().wait(SECONDS / 2)
        load.stop()
        seconds = time.perf_counter() - started
        _, status = server.get("/v1/models/demo")
        assert server.stop() == 0
    p50, p99 = np.percentile(load.latencies, [50, 99]) * 1e3
    print(
        f"\n{CLIENTS} clients, {seconds:.0f} s: {len(load.latencies):,} requests, "
        f"{load.rows:,} sentences, {load.rows / seconds:.0f} sentences/s, "
        f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, {len(load.wrong)} failed or mixed up"
    )
    assert not load.wrong, load.wrong[:3]
    assert load.versions >= {1, 2}
    states = [entry["state"] for entry in status["model_version_status"]]
    assert states == ["AVAILABLE", "END"]


async def single_rows(port, sentences, seconds):
    """Returns the sentences per second of clients that send one sentence at a time."""
    completed = 0
    end = time.perf_counter() + seconds

    async def ask(seed):
        nonlocal completed
        rng = random.Random(seed)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            while time.perf_counter() < end:
                text = [rng.choice(sentences)]
                await stub.Predict(served.predict_request("demo", text=text))
                completed += 1

    await asyncio.gather(*map(ask, range(CLIENTS)))
    return completed / seconds


def test_batching_at_least_doubles_throughput(sentences, tmp_path):
    flag, _ = base_of(tmp_path)
    rates = {"--enable_batching": [], "--noenable_batching": []}
    for _ in range(3):
        for batching, found in rates.items():
            with served.server("--model_name=demo", flag, batching) as server:
                asyncio.run(single_rows(server.port, sentences, 3))  # Warms up.
                found.append(asyncio.run(single_rows(server.port, sentences, 12)))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    ratio = medians["--enable_batching"] / medians["--noenable_batching"]
    for name, rate in medians.items():
        print(
            f"\n{name}: {rate:.0f} sentences/s, {CLIENTS} clients of one each", end=""
        )
    print(f"\nbatching raises throughput {ratio:.2f} times")
    assert ratio >= 2


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
