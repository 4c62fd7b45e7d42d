"""The gRPC server: its port, its connections, TLS."""

from collections.abc import Mapping

import grpc

from t2t_keras.errors import UserError
from t2t_keras.server.grpc_gate import Gate
from t2t_keras.server.tls import ServerTls

_HANDSHAKE_SECONDS = 10
_IDLE_SECONDS = 600


def grpc_server(
    gate: Gate,
    host: str,
    port: int,
    socket_path: str | None,
    max_message_bytes: int,
    max_connections: int,
    arguments: Mapping[str, int | str],
    tls: ServerTls | None,
) -> grpc.aio.Server:
    """Makes a server that listens; services are to be added, and it to start.

    Args:
        gate: What each call passes. How many calls there are is its business.
        host: Address to listen on.
        port: The port; 0 for none.
        socket_path: A Unix socket to listen on as well; None for none.
        max_message_bytes: The most bytes of a message that is received.
        max_connections: Maximum number of connections.
        arguments: Channel arguments of gRPC, which go before those chosen here.
        tls: Encryption; None for none.

    Raises:
        UserError: If the port cannot be listened on.
    """
    chosen: dict[str, int | str] = {
        "grpc.max_receive_message_length": max_message_bytes,
        "grpc.max_send_message_length": -1,
        # Two servers on one port would each get some of the requests.
        "grpc.so_reuseport": 0,
        # Connections that say nothing take a file each.
        "grpc.server_handshake_timeout_ms": _HANDSHAKE_SECONDS * 1000,
        "grpc.max_allowed_incoming_connections": max_connections,
        "grpc.max_connection_idle_ms": _IDLE_SECONDS * 1000,
    }
    server = grpc.aio.server(
        interceptors=[gate],
        options=[*{**chosen, **arguments}.items()],
    )
    addresses = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}"] * bool(port)
    addresses += [f"unix:{socket_path}"] * bool(socket_path)
    for address in addresses:
        try:
            if tls:
                server.add_secure_port(address, tls.grpc_credentials())
            else:
                server.add_insecure_port(address)
        except RuntimeError as error:
            raise UserError(f"{address} cannot be listened on: {error}") from error
    return server
