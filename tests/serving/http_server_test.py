"""The HTTP server below the REST API: its sockets and connections."""

import asyncio
import socket
import sys

import command
import pytest

from t2t_keras.serving.http_server import listen


class NoDelay(asyncio.Protocol):
    """Notes the TCP_NODELAY option of the connections that it is given."""

    def __init__(self, found):
        self.found = found

    def connection_made(self, transport):
        accepted = transport.get_extra_info("socket")
        option = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        self.found.set_result(option)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_accepted_connections_send_without_delay(host):
    (port,) = command.free_ports(1)
    if ":" in host and not command.can_bind(host):
        pytest.skip("This machine has no IPv6.")

    async def accept():
        found = asyncio.get_running_loop().create_future()
        listening = listen(host, port)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: NoDelay(found), sock=listening)
        async with server:
            _, writer = await asyncio.open_connection(host, port)
            option = await found
            writer.close()
            return option

    assert asyncio.run(accept()) != 0


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
