"""Processing of predict requests, independent of the protocol."""

import asyncio
import functools
import time
from collections.abc import Iterable

import grpc
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.server.admission import Admission
from t2t_keras.server.batch_request import Rows, equal_rows
from t2t_keras.server.model_registry import Registry
from t2t_keras.server.model_version import Version
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.request_batcher import Batcher
from t2t_keras.server.saved_model import (
    DEFAULT_SIGNATURE,
    Arrays,
    SavedModel,
    check_rows,
)
from t2t_keras.server.serving_errors import ServingError
from t2t_keras.server.thread_offload import offload
from t2t_keras.server_limits import MAX_REQUEST_ROWS


class Predictor:
    """Runs predict requests within limits.

    Args:
        registry: The models.
        batcher: Runs the models.
        metrics: Prometheus metrics.
        max_rows: Maximum number of rows of a request.
        admission: Limits the requests. Default a new one.
    """

    def __init__(
        self,
        registry: Registry,
        batcher: Batcher,
        metrics: Metrics,
        max_rows: int = MAX_REQUEST_ROWS,
        admission: Admission | None = None,
    ) -> None:
        self.registry = registry
        self.metrics = metrics
        self._batcher = batcher
        self.max_rows = max_rows
        self.admission = admission or Admission()

    async def predict(
        self,
        spec: ModelSpec,
        inputs: Arrays,
        output_filter: Iterable[str],
        timeout: float,
        entry_point: str,
        api: str = "Predict",
    ) -> tuple[Arrays, ModelSpec]:
        """Runs a request.

        Args:
            spec: Model, version and signature.
            inputs: Arrays by name.
            output_filter: Names of the outputs to return; empty for all.
            timeout: Timeout in seconds.
            entry_point: "GRPC" or "REST", for metrics.
            api: Name of the method, for metrics. Default "Predict".

        Returns:
            The outputs, and the spec with the version that computed them.

        Raises:
            ServingError: If the request fails.
        """
        started = time.perf_counter()
        status = "OK"
        try:
            return await self._process(spec, inputs, output_filter, timeout)
        except ServingError as error:
            status = error.code.name
            raise
        except asyncio.CancelledError:
            status = grpc.StatusCode.CANCELLED.name
            raise
        finally:
            # Names of unknown models would fill the memory.
            name = spec.name if spec.name in self.registry.names else ""
            micros = (time.perf_counter() - started) * 1e6
            self.metrics.request_count.inc(name, status)
            latency = self.metrics.request_latency.labels(name, api, entry_point)
            latency.observe(micros)

    async def _process(
        self,
        spec: ModelSpec,
        inputs: Arrays,
        output_filter: Iterable[str],
        timeout: float,
    ) -> tuple[Arrays, ModelSpec]:
        version, model = self.registry.acquire(spec)
        try:
            outputs = await self._run(
                spec, version, model, inputs, output_filter, timeout
            )
        except TimeoutError:
            raise ServingError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"No result within {timeout:g} s.",
            ) from None
        except Exception as error:
            raise ServingError.of(error) from error
        finally:
            version.release()
        signature = spec.signature_name or DEFAULT_SIGNATURE
        response_spec = ModelSpec(name=spec.name, signature_name=signature)
        response_spec.version.value = version.number
        return outputs, response_spec

    async def _run(
        self,
        spec: ModelSpec,
        version: Version,
        model: SavedModel,
        inputs: Arrays,
        output_filter: Iterable[str],
        timeout: float,
    ) -> Arrays:
        signature = spec.signature_name or DEFAULT_SIGNATURE
        model.check(signature, inputs)
        names = model.outputs_of(signature, output_filter)
        # The model's id stands for the version: each has its own batches.
        key = (id(model), signature, frozenset(names))
        properties = None
        if model.is_batchable(signature):
            rows = {len(array) for array in inputs.values()}
            check_rows(rows, self.max_rows)
            if version.joins_requests and len(rows) == 1:
                size = sum(array.nbytes for array in inputs.values())
                properties = await offload(
                    size, _row_properties, version, model, signature, inputs, names
                )
        run = functools.partial(self._run_timed, spec.name, model, signature, names)
        async with asyncio.timeout(max(timeout, 0)):
            # Without a variable: it and an error would form a reference cycle.
            return await asyncio.wrap_future(
                self._batcher.submit(
                    key, run, inputs, timeout, properties, properties is not None
                )
            )

    def _run_timed(
        self,
        model_name: str,
        model: SavedModel,
        signature: str,
        names: set[str],
        inputs: Arrays,
        seconds: float,
    ) -> Arrays:
        started = time.perf_counter()
        try:
            return model.run(signature, inputs, names, seconds)
        finally:
            micros = (time.perf_counter() - started) * 1e6
            latency = self.metrics.runtime_latency.labels(model_name, "Predict", "TF1")
            latency.observe(micros)


def _row_properties(
    version: Version,
    model: SavedModel,
    signature: str,
    inputs: Arrays,
    names: set[str],
) -> Rows:
    unpadded = {name for name in names if not model.has_fixed_rows(signature, name)}
    return Rows(
        model.row_lengths(signature, inputs),
        version.padding if unpadded <= set(version.padding) else None,
        equal_rows(inputs) if version.is_deterministic else None,
    )
