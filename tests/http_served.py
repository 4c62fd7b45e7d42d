"""The HTTP server of the REST API, in this process, for tests of serving."""

import asyncio
import contextlib

import command

from t2t_keras.server.http_server import HttpServer, listen

WAIT = 60  # Seconds until a hanging test fails.
REQUEST = b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"


@contextlib.asynccontextmanager
async def serving(app=None, max_connections=100, **tls):
    """Serves an application; the default one returns the path when it may respond.

    Yields:
        The server, its port, an event set when a request has arrived, and the event
        that lets the application respond.
    """
    (port,) = command.free_ports(1)
    arrived, may_respond = asyncio.Event(), asyncio.Event()

    async def by_path(scope, receive, send):
        message = {"more_body": True}
        while message.get("more_body"):
            message = await receive()
        if message["type"] == "http.disconnect":
            return
        arrived.set()
        await may_respond.wait()
        body = scope["path"].encode()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    server = HttpServer(app or by_path, WAIT, max_connections, **tls)
    running = asyncio.create_task(server.serve(sockets=[listen("127.0.0.1", port)]))
    while not server.started:
        await asyncio.sleep(0)
    try:
        async with asyncio.timeout(WAIT):
            yield server, port, arrived, may_respond
    finally:
        server.should_exit = True
        await running
