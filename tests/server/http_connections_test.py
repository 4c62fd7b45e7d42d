"""HTTP connections that send or read nothing do not affect others."""

import asyncio
import contextlib
import ssl
import sys

import fake_server
import pytest
from http_served import REQUEST, WAIT, serving

from t2t_keras.server import http_connections, http_protocol
from t2t_keras.server.held_response import HeldResponse


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """Certificate files by argument of the server."""
    path = fake_server.certificate(tmp_path_factory.mktemp("tls"))
    return {"tls_certificate": path / "cert.pem", "tls_key": path / "key.pem"}


async def connect(port, **options):
    return await asyncio.open_connection("127.0.0.1", port, **options)


async def is_closed(connection):
    """Waits until a connection is closed; returns whether it received nothing."""
    with contextlib.suppress(ConnectionResetError):
        return await connection[0].read() == b""
    return True


async def fetch(port, request=REQUEST % 1, **options):
    reader, writer = await connect(port, **options)
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(2)
    writer.close()
    return head.split()[1], body


def test_longest_idle_connection_is_closed():
    async def test():
        async with serving(max_connections=3) as (_, port, arrived, may_respond):
            busy = await connect(port)
            busy[1].write(REQUEST % 7)
            await arrived.wait()
            silent = [await connect(port) for _ in range(2)]
            # In the middle of its body.
            slow = await connect(port)
            slow[1].write((REQUEST % 8)[:-1])
            assert await is_closed(silent[0])
            may_respond.set()
            assert b"200 OK" in await busy[0].readuntil(b"\r\n\r\n")
            assert await busy[0].readexactly(2) == b"/7"
            assert await fetch(port) == (b"200", b"/1")
            assert await is_closed(silent[1])
            kept = [await connect(port) for _ in range(3)]
            assert await is_closed(slow)
            assert await is_closed(busy)
            for _, writer in (busy, slow, *silent, *kept):
                writer.close()

    asyncio.run(test())


def test_stalled_handshakes_are_closed_and_time_out(tls, monkeypatch):
    context = ssl.create_default_context(cafile=tls["tls_certificate"])

    async def test():
        async with serving(max_connections=3, **tls) as (_, port, _, may_respond):
            may_respond.set()
            stalled = [await connect(port) for _ in range(5)]
            assert await is_closed(stalled[0])
            assert await is_closed(stalled[1])
            for number in range(1, 3):
                options = {"ssl": context, "server_hostname": "localhost"}
                response = await fetch(port, REQUEST % number, **options)
                assert response == (b"200", b"/%d" % number)
            monkeypatch.setattr(http_connections, "_HANDSHAKE_SECONDS", 1)
            late = await connect(port)
            late[1].write(b"\x16\x03\x01")
            assert await is_closed(late)
            for _, writer in stalled:
                writer.close()

    asyncio.run(test())


def chunked(number, size):
    """Returns a request whose body has a number of chunks of a size."""
    head = b"POST /3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n" % (size, b"a" * size) * number + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("number", "size", "status"),
    [(100, 1, b"200"), (5000, 200, b"200"), (5000, 1, b"400"), (5000, 20, b"400")],
)
def test_bodies_of_many_small_chunks_are_rejected(number, size, status):
    async def test():
        async with serving() as (_, port, _, may_respond):
            may_respond.set()
            reader, writer = await connect(port)
            writer.write(chunked(number, size))
            line = await reader.readline()
            writer.close()
            assert line.split()[1] == status
            assert await fetch(port) == (b"200", b"/1")

    asyncio.run(test())


def test_response_is_held_until_read_or_connection_lost(monkeypatch):
    monkeypatch.setattr(http_protocol, "_STALL_SECONDS", 1)
    content = b"a" * (64 << 20)
    done = asyncio.Event()

    async def app(scope, receive, send):
        held = contextlib.ExitStack()
        held.callback(done.set)
        await HeldResponse(content, held)(scope, receive, send)

    async def test():
        async with serving(app) as (_, port, *_):
            reader, writer = await connect(port)
            writer.write(REQUEST % 1)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"content-length: %d" % len(content) in head
            assert not done.is_set()
            assert await reader.readexactly(len(content)) == content
            await done.wait()
            done.clear()
            # This client does not read.
            writer.transport.pause_reading()
            writer.write(REQUEST % 2)
            await done.wait()
            writer.close()

    asyncio.run(test())


def test_clients_that_send_whole_body_first_get_the_error():
    size = 32 << 20

    async def app(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    def request(headers=b""):
        length = b"Content-Length: %d\r\n" % size
        return b"POST / HTTP/1.1\r\nHost: x\r\n" + length + headers + b"\r\n"

    async def test():
        async with serving(app) as (_, port, *_):
            reader, writer = await connect(port)
            writer.write(request(b"Connection: close\r\n") + b"a" * size)
            await writer.drain()
            assert b" 413 " in await reader.readline()
            assert (await reader.read()).endswith(b"no\r\n0\r\n\r\n")
            writer.close()
            # A client whose body never arrives gets a response, too.
            reader, writer = await connect(port)
            writer.write(request() + b"a")
            assert b" 413 " in await reader.readline()
            writer.close()

    asyncio.run(test())


def test_connection_without_a_request_is_closed(monkeypatch):
    monkeypatch.setattr(http_protocol, "_HEAD_SECONDS", 0.5)

    async def test():
        async with serving() as (_, port, *_), asyncio.timeout(WAIT):
            silent, partial = await connect(port), await connect(port)
            partial[1].write(b"POST / HTTP/1.1\r\nHo")
            for connection in (silent, partial):
                assert await is_closed(connection)
                connection[1].close()

    asyncio.run(test())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
