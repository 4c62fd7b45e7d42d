"""The gRPC server: port, connections, TLS."""

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
    """Creates a listening server; the caller adds services and starts it.

    Args:
        gate: Interceptor of all calls; it limits their number.
        host: Address to listen on.
        port: Port number; 0 for none.
        socket_path: Path of an additional Unix socket; None for none.
        max_message_bytes: Maximum size of a received message in bytes.
        max_connections: Maximum number of connections.
        arguments: gRPC channel arguments; they override the defaults set here.
        tls: Certificate and key; None for no encryption.

    Raises:
        UserError: If the port is not available.
    """
    defaults: dict[str, int | str] = {
        "grpc.max_receive_message_length": max_message_bytes,
        "grpc.max_send_message_length": -1,
        # Otherwise two servers on one port would share the requests.
        "grpc.so_reuseport": 0,
        # Idle connections each hold a file descriptor.
        "grpc.server_handshake_timeout_ms": _HANDSHAKE_SECONDS * 1000,
        "grpc.max_allowed_incoming_connections": max_connections,
        "grpc.max_connection_idle_ms": _IDLE_SECONDS * 1000,
    }
    server = grpc.aio.server(
        interceptors=[gate],
        options=[*{**defaults, **arguments}.items()],
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
            raise UserError(f"Cannot listen on {address}: {error}") from error
    return server
