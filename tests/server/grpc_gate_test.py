"""Calls that send nothing, too much or too many fields do not affect others."""

import asyncio
import sys
from collections import Counter

import command
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    predict_pb2,
    prediction_service_pb2_grpc,
)

from t2t_keras.server import grpc_gate, health
from t2t_keras.server.admission import Admission
from t2t_keras.server.grpc_gate import Gate
from t2t_keras.server.grpc_server import grpc_server
from t2t_keras.server.health import HealthService
from t2t_keras.server.protobuf_limits import count_fields
from t2t_keras.server.tensor_protos import to_arrays

MAX_BYTES = 16 << 20
PREDICT = "/tensorflow.serving.PredictionService/Predict"
WATCH = "/grpc.health.v1.Health/Watch"
PATIENCE = 120
REQUEST = predict_pb2.PredictRequest()
REQUEST.model_spec.name = "echo"


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Returns the requested model name, repeated."""

    def __init__(self, admission):
        self.admission = admission
        self.repeat = 1

    async def Predict(self, request, context):
        with self.admission.request():
            to_arrays(request.inputs, MAX_BYTES)
            response = predict_pb2.PredictResponse()
            response.model_spec.name = request.model_spec.name * self.repeat
            return response


class Running:
    """A server with the gate, the service and the health service."""

    def __init__(self, token=None, timeout=PATIENCE, max_requests=2):
        (port,) = command.free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.admission = Admission(max_requests, MAX_BYTES)
        self.service = Service(self.admission)
        self.health = HealthService()
        gate = Gate(self.admission, timeout, MAX_BYTES, token)
        self.server = grpc_server(gate, "127.0.0.1", port, None, MAX_BYTES, 9, {}, None)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            self.service, self.server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.server)

    def channel(self):
        """Opens a separate connection."""
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", -1),
        ]
        return grpc.aio.insecure_channel(self.address, options)

    async def ask(self, token=None):
        """Returns the name in the response to a valid request."""
        metadata = [("authorization", f"Bearer {token}")] if token else []
        async with self.channel() as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            response = await stub.Predict(REQUEST, metadata=metadata, timeout=PATIENCE)
        return response.model_spec.name


def serve(test, **options):
    """Runs a coroutine function with a server and a channel to it."""

    async def run():
        running = Running(**options)
        await running.server.start()
        try:
            async with asyncio.timeout(PATIENCE), running.channel() as channel:
                await test(running, channel)
        finally:
            await running.server.stop(0)

    asyncio.run(run())


async def codes(calls):
    return Counter([(await call.code()).name for call in calls])


async def send(channel, content):
    """Sends bytes as a message; returns the status code and the error message."""
    try:
        await channel.unary_unary(PREDICT)(content, timeout=PATIENCE)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


def test_calls_without_token_are_rejected_before_their_message():
    async def test(running, channel):
        silent = [channel.stream_stream(PREDICT)() for _ in range(700)]
        assert await codes(silent) == {"UNAUTHENTICATED": 700}
        assert (await send(channel, b""))[0] == "UNAUTHENTICATED"
        assert await running.ask("s3cret") == "echo"

    serve(test, token="s3cret")


def test_silent_calls_do_not_count_as_requests():
    async def test(running, channel):
        silent = [channel.stream_stream(PREDICT)() for _ in range(700)]
        watches = [channel.stream_stream(WATCH)() for _ in range(100)]
        for _ in range(3):
            assert await running.ask() == "echo"
        assert not any(call.done() for call in [*silent, *watches])

    serve(test)


def test_longest_waiting_call_is_evicted(monkeypatch):
    monkeypatch.setattr(grpc_gate, "_MAX_WAITING", 3)

    async def test(running, channel):
        silent = []
        for _ in range(5):
            silent.append(channel.stream_stream(PREDICT)())
            await silent[-1].wait_for_connection()
        assert await codes(silent[:2]) == {"RESOURCE_EXHAUSTED": 2}
        assert await running.ask() == "echo"
        # The valid request was the sixth.
        assert await codes(silent[2:3]) == {"RESOURCE_EXHAUSTED": 1}
        assert not any(call.done() for call in silent[3:])

    serve(test)


def test_missing_message_times_out():
    async def test(running, channel):
        silent = [channel.stream_stream(method)() for method in (PREDICT, WATCH)]
        assert await codes(silent) == {"DEADLINE_EXCEEDED": 2}
        call = channel.stream_stream(PREDICT)()
        await call.done_writing()
        assert await codes([call]) == {"INVALID_ARGUMENT": 1}

    serve(test, timeout=1)


def test_concurrent_requests_and_their_bytes_are_limited():
    async def test(running, channel):
        with running.admission.request(), running.admission.request():
            assert (await send(channel, b""))[0] == "RESOURCE_EXHAUSTED"
        padded = predict_pb2.PredictRequest(output_filter=["a" * 100_000])
        content = padded.SerializeToString()
        assert (await send(channel, content))[0] == "OK"
        with running.admission.bytes() as hold:
            hold(MAX_BYTES - 50_000)
            code, message = await send(channel, content)
            assert (code, "hold more than" in message) == ("RESOURCE_EXHAUSTED", True)
            assert (await send(channel, b""))[0] == "OK"
        assert (await send(channel, content))[0] == "OK"

    serve(test)


def test_unread_response_no_longer_counts_after_timeout():
    async def test(running, channel):
        running.service.repeat = 2 << 20
        call = channel.stream_stream(PREDICT)()
        await call.write(REQUEST.SerializeToString())
        await call.done_writing()
        held = []
        while not held or held[-1]:
            if running.admission._bytes or held:
                held.append(running.admission._bytes)
            await asyncio.sleep(0.01)
        # The response was held, the client did not read it, and it was released.
        assert max(held) >= running.service.repeat
        running.service.repeat = 1
        assert await running.ask() == "echo"
        # The client can still read it.
        assert len(await call.read()) > max(held) - 1000
        assert await call.read() == grpc.aio.EOF
        assert await call.code() == grpc.StatusCode.OK

    serve(test, timeout=1)


def field(number, content):
    """Returns a serialized bytes field."""
    length, size = b"", len(content)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def tensor(content):
    """Returns a serialized PredictRequest with a TensorProto of the given bytes."""
    return field(2, field(1, b"x") + field(2, content))


# Functions, so that collecting the tests does not allocate 100 MB.
HOSTILE = {
    "dimensions": lambda: tensor(field(2, b"\x12\x00" * (MAX_BYTES // 2 - 50))),
    "vast dimensions": lambda: tensor(
        b"\x08\x01" + field(2, field(2, b"\x08" + b"\x80" * 8 + b"\x40") * 120_000)
    ),
    "strings": lambda: tensor(b"\x42\x00" * (MAX_BYTES // 2 - 50)),
    "variants": lambda: tensor(b"\x7a\x00" * (MAX_BYTES // 2 - 50)),
    "inputs": lambda: b"\x12\x00" * (MAX_BYTES // 2 - 50),
    "filters": lambda: b"\x1a\x00" * (MAX_BYTES // 2 - 50),
    "unknown fields": lambda: b"\xf8\x01\x01" * (MAX_BYTES // 3 - 50),
}


def test_messages_with_many_fields_do_not_block_the_event_loop():
    gaps = []

    async def tick():
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(0.01)
            gaps.append(loop.time() - last)
            last = loop.time()

    async def test(running, channel):
        ticking = asyncio.create_task(tick())
        responses = {
            name: await send(channel, content()) for name, content in HOSTILE.items()
        }
        ticking.cancel()
        message = "INVALID_ARGUMENT", "A message may have at most 524,288 fields."
        assert responses.pop("vast dimensions") == (
            "INVALID_ARGUMENT",
            "Input x may have at most 64 dimensions. Received: 120,000",
        )
        assert responses == dict.fromkeys(responses, message)

    serve(test)
    # Without the limit, each blocks the event loop for seconds up to a minute.
    assert max(gaps) < 5


def test_fields_of_nested_messages_are_counted():
    request = predict_pb2.PredictRequest(output_filter=["a", "b"])
    request.model_spec.version.value = 3
    request.inputs["x"].tensor_shape.dim.add(size=2)
    request.inputs["x"].float_val.extend([1, 2, 3])
    # 2 filters; the model, its version and the number; the input, its name and tensor,
    # the shape, the dimension and its size, the values, which are one field.
    expected = 2 + 3 + 3 + 3 + 1
    content = request.SerializeToString()
    message = predict_pb2.PredictRequest.DESCRIPTOR
    assert count_fields(content, message, 100) == expected
    assert count_fields(content, message, 5) == 6
    for size in range(len(content)):
        assert count_fields(content[:size], message, 100) <= expected


@pytest.mark.parametrize("content", [b"\x0a\xff", b"\xff" * 100_000, b"\x0f" * 100_000])
def test_malformed_messages_are_rejected(content):
    async def test(running, channel):
        code, message = await send(channel, content)
        assert (code, "cannot be parsed" in message) == ("INVALID_ARGUMENT", True)

    serve(test)


def test_watch_reports_health_at_once_and_on_change():
    async def test(running, channel):
        stub = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        other = stub.Watch(health_pb2.HealthCheckRequest(service="other"))
        statuses = [(await other.read()).status, (await watch.read()).status]
        assert statuses == [3, 2]  # SERVICE_UNKNOWN, NOT_SERVING
        running.health.set(True)
        assert (await watch.read()).status == 1  # SERVING
        response = await stub.Check(health_pb2.HealthCheckRequest())
        assert response.status == 1
        with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
            await stub.Check(health_pb2.HealthCheckRequest(service="other"))

    serve(test)


def test_watches_are_limited_and_must_be_read(monkeypatch):
    monkeypatch.setattr(health, "_MAX_WATCHES", 2)
    monkeypatch.setattr(health, "_WRITE_SECONDS", 0.1)

    class ClientThatNeverReads:
        async def write(self, message):
            await asyncio.Event().wait()

        async def abort(self, code, details):
            raise RuntimeError(code.name)

    async def test(running, channel):
        unread_watch = asyncio.create_task(
            running.health.Watch(
                health_pb2.HealthCheckRequest(), ClientThatNeverReads()
            )
        )
        stub = health_pb2_grpc.HealthStub(channel)
        second = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await second.read()).status == 2
        third = stub.Watch(health_pb2.HealthCheckRequest())
        assert await codes([third]) == {"RESOURCE_EXHAUSTED": 1}
        with pytest.raises(RuntimeError, match="DEADLINE_EXCEEDED"):
            await unread_watch
        fourth = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await fourth.read()).status == 2

    serve(test)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
