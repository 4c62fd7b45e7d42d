"""The gRPC server: its port, its connections, TLS."""

from pathlib import Path

import grpc

from t2t_keras.serving.grpc_gate import Gate

_HANDSHAKE_SECONDS = 10
_IDLE_SECONDS = 600


def grpc_server(
    gate: Gate,
    host: str,
    port: int,
    max_message_bytes: int,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
    tls_client_ca: str | None = None,
) -> grpc.aio.Server:
    """Makes a server that listens on a port; services are to be added, and it to start.

    Args:
        gate: What each call passes. How many calls there are is its business.
        host: Address to listen on.
        port: The port.
        max_message_bytes: The most bytes of a message that is received.
        tls_certificate: PEM file of the certificate chain. Default no TLS.
        tls_key: PEM file of its key.
        tls_client_ca: PEM file of the authority that must have signed clients'
            certificates. Default none is demanded.

    Raises:
        ValueError: If the port cannot be listened on.
    """
    server = grpc.aio.server(
        interceptors=[gate],
        options=[
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", -1),
            # Two servers on one port would each get some of the requests.
            ("grpc.so_reuseport", 0),
            # Connections that say nothing take a file each.
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_SECONDS * 1000),
            ("grpc.max_connection_idle_ms", _IDLE_SECONDS * 1000),
        ],
    )
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if tls_key:
            credentials = _credentials(str(tls_certificate), tls_key, tls_client_ca)
            server.add_secure_port(address, credentials)
        else:
            server.add_insecure_port(address)
    except RuntimeError as error:
        raise ValueError(f"{address} cannot be listened on: {error}") from error
    return server


def _credentials(
    certificate: str, key: str, client_ca: str | None
) -> grpc.ServerCredentials:
    pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
    ca = Path(client_ca).read_bytes() if client_ca else None
    return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)
