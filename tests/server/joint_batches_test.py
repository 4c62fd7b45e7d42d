"""Requests of several clients share a batch only if their rows are independent."""

import asyncio
import sys

import exported
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.export.row_independence import are_rows_independent
from t2t_keras.server.model_config import single_model_config
from t2t_keras.server.model_registry import Registry
from t2t_keras.server.predictor import Predictor
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.request_batcher import Batcher

ROWS = [1.0, 3.0]
"""Rows of each request; two requests fill a batch."""


class Mixing(tf.Module):
    """A model whose rows depend on each other, with as many outputs as inputs."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def normalize(self, x):
        return {"y": x / tf.reduce_sum(x)}


@pytest.fixture(scope="module")
def mixing(tmp_path_factory):
    base = tmp_path_factory.mktemp("mixing")
    module = Mixing()
    tf.saved_model.save(module, str(base / "1"), signatures=module.normalize)
    return base


@pytest.fixture
def ask(mixing):
    """Function that sends two concurrent requests.

    A thread waits an hour for a full batch, so requests are joined whenever allowed.
    """
    batches, lines = [], []
    batcher = Batcher(
        max_batch_size=4,
        batch_timeout_micros=3_600_000_000,
        num_batch_threads=1,
        observe=lambda micros, rows: batches.append(rows),
    )

    def ask(enable_batching=None):
        metrics = Metrics()
        registry = Registry(
            single_model_config("m", str(mixing)),
            metrics,
            report=lines.append,
            enable_batching=enable_batching,
        )
        registry.start().result(60)
        predictor = Predictor(registry, batcher, metrics)

        async def send():
            inputs = [np.array(ROWS, np.float32), np.array(ROWS, np.float32) * 10]
            return await asyncio.gather(
                *(
                    predictor.predict(ModelSpec(name="m"), {"x": x}, (), 60, "GRPC")
                    for x in inputs
                )
            )

        responses = asyncio.run(send())
        registry.stop()
        return [outputs["y"].tolist() for outputs, _ in responses], batches, lines

    yield ask
    batcher.close()


def test_requests_to_a_foreign_model_run_alone(ask):
    outputs, batches, lines = ask()
    assert outputs == [[0.25, 0.75], [0.25, 0.75]]
    assert len(batches) == 2
    assert any("or use --enable_batching" in line for line in lines)


def test_enable_batching_joins_requests_to_any_model(ask):
    outputs, batches, _ = ask(enable_batching=True)
    assert batches == [4, 4]
    assert np.sum(outputs) == pytest.approx(1)


def test_noenable_batching_joins_no_requests_and_logs_no_hint(ask):
    outputs, _, lines = ask(enable_batching=False)
    assert outputs == [[0.25, 0.75], [0.25, 0.75]]
    assert not any("--enable_batching" in line for line in lines)


def test_exports_are_marked_as_having_independent_rows(mixing, tmp_path):
    exported.export(tmp_path / "1", *exported.toy())
    assert are_rows_independent(tmp_path / "1")
    assert not are_rows_independent(mixing / "1")
    for damaged in ("", "[1]", "{}", '{"rows_are_independent": 1}'):
        (tmp_path / "1/assets.extra/t2t-keras.json").write_text(damaged)
        assert not are_rows_independent(tmp_path / "1")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
