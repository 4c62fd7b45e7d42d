"""The health service: whether the models are available."""

import asyncio
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_SERVICES = ("", "tensorflow.serving.PredictionService")
_MAX_WATCHES = 512
_WRITE_SECONDS = 10
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthService(health_pb2_grpc.HealthServicer):
    """grpc.health.v1.Health, for the server and its PredictionService.

    It requires no token. Therefore the number of watches is limited, and a watch whose
    client does not read ends, so that it delays neither others nor the shutdown.
    """

    def __init__(self) -> None:
        self._status = _NOT_SERVING
        self._changed = asyncio.Event()
        self._watches = 0

    def set(self, is_serving: bool) -> None:
        """Sets the status and notifies watches if it has changed."""
        status = _SERVING if is_serving else _NOT_SERVING
        if status != self._status:
            self._status = status
            self._changed.set()
            self._changed = asyncio.Event()

    async def Check(
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.aio.ServicerContext,
    ) -> health_pb2.HealthCheckResponse:
        """Returns the current status."""
        if request.service not in _SERVICES:
            await context.abort(grpc.StatusCode.NOT_FOUND, "There is no such service.")
        return health_pb2.HealthCheckResponse(status=self._status)

    async def Watch(
        self,
        request: health_pb2.HealthCheckRequest,
        context: grpc.aio.ServicerContext,
    ) -> None:
        """Sends the status now and at each change, until the client leaves."""
        if self._watches >= _MAX_WATCHES:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"The maximum of {_MAX_WATCHES} watches is reached.",
            )
        self._watches += 1
        try:
            await self._send_changes(request.service in _SERVICES, context)
        except TimeoutError:
            await context.abort(
                grpc.StatusCode.DEADLINE_EXCEEDED, "The client does not read."
            )
        finally:
            self._watches -= 1

    async def _send_changes(
        self, is_known: bool, context: grpc.aio.ServicerContext
    ) -> None:
        sent: Any = None
        while True:
            changed = self._changed
            status = self._status if is_known else _UNKNOWN
            if status != sent:
                async with asyncio.timeout(_WRITE_SECONDS):
                    await context.write(health_pb2.HealthCheckResponse(status=status))
                sent = status
            await changed.wait()
