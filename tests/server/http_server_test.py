"""The HTTP server of the REST API: sockets and connections."""

import asyncio
import json
import socket
import sys

import command
import pytest
from http_served import REQUEST, serving

from t2t_keras.server.http_server import listen


class NoDelay(asyncio.Protocol):
    """Records the TCP_NODELAY option of its connections."""

    def __init__(self, option_future):
        self.option = option_future

    def connection_made(self, transport):
        accepted = transport.get_extra_info("socket")
        option = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        self.option.set_result(option)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_accepted_connections_send_without_delay(host):
    (port,) = command.free_ports(1)
    if ":" in host and not command.can_bind(host):
        pytest.skip("This machine has no IPv6.")

    async def accept():
        option_future = asyncio.get_running_loop().create_future()
        listening = listen(host, port)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: NoDelay(option_future), sock=listening
        )
        async with server:
            _, writer = await asyncio.open_connection(host, port)
            option = await option_future
            writer.close()
            return option

    assert asyncio.run(accept()) != 0


def test_half_closed_connection_gets_its_responses():
    async def ask():
        async with serving() as (_, port, arrived, may_respond):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            # The second request is read after the first has got its response.
            writer.write(REQUEST % 1 + REQUEST % 2)
            writer.write_eof()
            await arrived.wait()
            may_respond.set()
            responses = await reader.read()
            writer.close()
            return responses

    responses = asyncio.run(ask())
    assert responses.count(b"HTTP/1.1 200") == 2
    assert responses.index(b"/1") < responses.index(b"/2")


def errors_of(responses):
    """Returns the messages of error responses, and the number of other responses."""
    heads = [part for part in responses.split(b"HTTP/1.1 ") if part]
    errors = [part.partition(b"\r\n\r\n") for part in heads if part.startswith(b"400")]
    for head, _, _ in errors:
        assert b"content-type: application/json" in head.lower()
        assert b"connection: close" in head.lower()
    return [json.loads(body)["error"] for *_, body in errors], len(heads) - len(errors)


CUT_OFF = "Malformed request: the connection was closed before its end"
CHUNKED = b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "completed"),
    [
        ((REQUEST % 1)[:-1], 0),
        ((REQUEST % 1)[:-2], 0),
        ((REQUEST % 1)[:20], 0),
        (CHUNKED + b"5\r\nab", 0),
        (CHUNKED + b"5", 0),
        # After another request, which is complete.
        (REQUEST % 1 + (REQUEST % 2)[:-1], 1),
        (REQUEST % 1 + (REQUEST % 2)[:20], 1),
    ],
)
def test_half_close_within_a_request_is_an_error(sent, completed):
    async def ask():
        async with serving() as (_, port, _, may_respond):
            may_respond.set()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            writer.write_eof()
            responses = await reader.read()
            writer.close()
            return responses

    assert errors_of(asyncio.run(ask())) == ([CUT_OFF], completed)


def test_error_of_truncated_head_request_has_no_body():
    async def ask():
        async with serving() as (_, port, _, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write((REQUEST % 1).replace(b"POST", b"HEAD")[:-1])
            writer.write_eof()
            response = await reader.read()
            writer.close()
            return response

    head, _, body = asyncio.run(ask()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert body == b""


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "Missing mandatory Host: header"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "multiple Host: headers"),
        (b"\x16\x03\x01\r\n\r\n", "illegal request line"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "Content-Length"),
    ],
)
def test_malformed_http_gets_a_json_error(sent, message):
    async def ask():
        async with serving() as (_, port, _, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            responses = await reader.read()
            writer.close()
            return responses

    (error,), others = errors_of(asyncio.run(ask()))
    assert error.startswith("Malformed request: ")
    assert message in error
    assert others == 0


def test_last_response_before_shutdown_closes_the_connection():
    async def ask():
        async with serving() as (server, port, arrived, may_respond):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST % 1)
            await arrived.wait()
            server.should_exit = True
            may_respond.set()
            response = await reader.read()
            writer.close()
            return response

    head, _, body = asyncio.run(ask()).partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert body == b"/1"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
