"""A model server: TensorFlow Serving's protocol over gRPC and REST."""

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from t2t_keras.errors import UserError
from t2t_keras.server.grpc_gate import Gate
from t2t_keras.server.grpc_server import grpc_server
from t2t_keras.server.grpc_service import ModelService, PredictionService
from t2t_keras.server.health import HealthService
from t2t_keras.server.http_security import HttpPolicy
from t2t_keras.server.http_server import HttpServer, listen
from t2t_keras.server.model_registry import Registry
from t2t_keras.server.predictor import Predictor
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.request_batcher import Batcher
from t2t_keras.server.rest import RestApi
from t2t_keras.server.server_options import ServerOptions
from t2t_keras.server.tf_examples import ExampleInference

_HEALTH_SECONDS = 0.5
# Time for threads to finish after the last request.
_MIN_END_SECONDS, _MAX_END_SECONDS = 0.5, 2.0


async def serve(
    registry: Registry,
    batcher: Batcher,
    predictor: Predictor,
    metrics: Metrics,
    options: ServerOptions,
    report: Callable[[str], None],
) -> bool:
    """Serves until SIGTERM or SIGINT, then shuts down gracefully.

    Args:
        registry: The models; started and stopped by this function.
        batcher: Batches requests; closed by this function.
        predictor: Handles requests with `registry` and `batcher`.
        metrics: Prometheus metrics.
        options: Addresses and limits.
        report: Called with each line of the log.

    Returns:
        Whether all threads have ended. If not, one runs an operation that cannot be
        interrupted and would delay the exit of the process.

    Raises:
        UserError: If a port is not available.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    stopped: asyncio.Future[Any] = asyncio.create_task(stop.wait())
    health = HealthService()
    inference = ExampleInference(predictor, options.checks_method_names)
    rest_socket = listen(options.host, options.rest_api_port)
    rpc = _grpc_services(predictor, inference, options, health)
    loaded: asyncio.Future[Any] = asyncio.wrap_future(registry.start())
    # Failures to load a model are logged and do not stop the server.
    loaded.add_done_callback(lambda _: loaded.cancelled() or loaded.exception())
    http: HttpServer | None = None
    serving: asyncio.Task[None] | None = None
    watching: asyncio.Task[None] | None = None
    grace = 0.0
    try:
        # As in TensorFlow Serving, ports open after the first attempt to load all
        # models.
        await asyncio.wait([loaded, stopped], return_when=asyncio.FIRST_COMPLETED)
        watching = asyncio.create_task(_update_health(registry, health))
        if rpc and not stop.is_set():
            await rpc.start()
        if rest_socket and not stop.is_set():
            http = _http_server(predictor, inference, options)
            serving = asyncio.create_task(http.serve(sockets=[rest_socket]))
            while not http.started and not serving.done():
                await asyncio.sleep(0.01)
            if serving.done():
                raise UserError(
                    f"Cannot listen on {options.host}:{options.rest_api_port}: "
                    f"{serving.exception() or 'another server uses the port'}"
                )
        if not stop.is_set():
            _report_addresses(options, report)
        await stopped
        report("Stopping: finishing the received requests ...")
        grace = options.grace
    finally:
        # After an error, too: a gRPC server that is not stopped before the event loop
        # is closed prints a traceback.
        shutdown_deadline = loop.time() + grace
        stopped.cancel()
        if watching:
            watching.cancel()
        health.set(False)
        ends: list[Any] = []
        if rpc:
            ends.append(rpc.stop(grace))
        if http and serving and not serving.done():
            http.should_exit = True
            ends.append(serving)
        await asyncio.gather(*ends)
        seconds = min(
            max(shutdown_deadline - loop.time(), _MIN_END_SECONDS), _MAX_END_SECONDS
        )
        have_ended = await asyncio.to_thread(registry.stop, seconds)
        # Closing waits for running batches; a daemon thread does not delay the exit.
        closing = threading.Thread(target=batcher.close, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, seconds)
    return have_ended and not closing.is_alive()


def _report_addresses(options: ServerOptions, report: Callable[[str], None]) -> None:
    scheme = "https" if options.tls_key else "http"
    if options.port:
        report(f"gRPC: {options.host}:{options.port}")
    if options.grpc_socket_path:
        report(f"gRPC: unix:{options.grpc_socket_path}")
    if options.rest_api_port:
        report(f"REST and page: {scheme}://{options.host}:{options.rest_api_port}/")


def _http_server(
    predictor: Predictor, inference: ExampleInference, options: ServerOptions
) -> HttpServer:
    api = RestApi(
        predictor,
        inference,
        options.rest_timeout or options.request_timeout,
        options.max_request_bytes,
        options.max_response_bytes,
        options.token,
        options.metrics_path,
    )
    return HttpServer(
        HttpPolicy(
            api.app(), [options.host, *options.allowed_hosts], options.allow_origins
        ),
        options.grace,
        options.max_connections,
        options.tls_certificate,
        options.tls_key,
        options.tls_client_ca,
    )


def _grpc_services(
    predictor: Predictor,
    inference: ExampleInference,
    options: ServerOptions,
    health: HealthService,
) -> grpc.aio.Server | None:
    if not options.port and not options.grpc_socket_path:
        return None
    gate = Gate(
        predictor.admission,
        options.request_timeout,
        options.max_request_bytes,
        options.token,
    )
    server = grpc_server(
        gate,
        options.host,
        options.port,
        options.grpc_socket_path,
        options.max_request_bytes,
        options.max_connections,
        options.grpc_arguments,
        options.grpc_tls,
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(
            predictor, inference, options.request_timeout, options.max_request_bytes
        ),
        server,
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        ModelService(predictor.registry), server
    )
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    return server


async def _update_health(registry: Registry, health: HealthService) -> None:
    """Keeps the health service in line with the models' states."""
    while True:
        health.set(registry.is_ready())
        await asyncio.sleep(_HEALTH_SECONDS)
