"""Addresses and limits of a server."""

import dataclasses
from collections.abc import Mapping, Sequence

from t2t_keras import server_limits
from t2t_keras.errors import UserError
from t2t_keras.server.prometheus import PATH as METRICS_PATH
from t2t_keras.server.tls import ServerTls


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """Addresses and limits of a server.

    Args:
        host: Address to listen on. Default 127.0.0.1: this machine only.
        port: Port of gRPC; 0 for none. Default 8500.
        grpc_socket_path: Additional Unix socket for gRPC. Default none.
        grpc_arguments: gRPC channel arguments, such as "grpc.max_connection_age_ms".
            Default none.
        rest_api_port: Port of REST and the page; 0 for none. Default 8501.
        allowed_hosts: Host names allowed in REST requests in addition to `host`; see
            `HttpPolicy`. Default none.
        allow_origins: Whether pages of all sites may use REST. Default False.
        metrics_path: Path of the metrics over REST; None to disable them. Default
            TensorFlow Serving's path.
        max_request_bytes: Maximum size in bytes of a request and of its tensors.
            Default 16 MiB.
        max_response_bytes: Maximum size of a response in bytes. Default 64 MiB.
        max_connections: Maximum number of connections of each protocol. Default 4,096.
        request_timeout: Timeout of a request in seconds. Default 60.
        rest_timeout: Timeout of a REST request in seconds. Default `request_timeout`.
        checks_method_names: See `ExampleInference`. Default False.
        grace: Seconds that requests have to finish during shutdown. Default 30.
        tls_certificate: PEM file of the certificate chain; encrypts both protocols.
        tls_key: PEM file of the private key.
        tls_client_ca: PEM file of the authority that must have signed client
            certificates.
        grpc_tls: Encrypts gRPC only, instead of these files. Default none.
        token: API token that requests must carry; None for none.

    Raises:
        UserError: If options contradict each other or a file cannot be read.
    """

    host: str = "127.0.0.1"
    port: int = 8500
    grpc_socket_path: str | None = None
    grpc_arguments: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    rest_api_port: int = 8501
    allowed_hosts: Sequence[str] = ()
    allow_origins: bool = False
    metrics_path: str | None = METRICS_PATH
    max_request_bytes: int = server_limits.MAX_REQUEST_BYTES
    max_response_bytes: int = server_limits.MAX_RESPONSE_BYTES
    max_connections: int = 4096
    request_timeout: float = server_limits.REQUEST_SECONDS
    rest_timeout: float | None = None
    checks_method_names: bool = False
    grace: float = server_limits.GRACE_SECONDS
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    grpc_tls: ServerTls | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        if not (self.port or self.rest_api_port or self.grpc_socket_path):
            raise UserError("port and rest_api_port are both 0: nothing to listen on.")
        if self.port and self.port == self.rest_api_port:
            raise UserError(
                f"--port and --rest_api_port must differ. Received: {self.port} for "
                "both."
            )
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise UserError("tls_certificate and tls_key must be given together.")
        if self.tls_client_ca and not self.tls_key:
            raise UserError("tls_client_ca requires tls_certificate and tls_key.")
        if self.tls_key and self.grpc_tls:
            raise UserError("Give either tls_certificate and tls_key, or grpc_tls.")
        if self.tls_certificate and self.tls_key:
            tls = ServerTls.from_files(
                self.tls_certificate, self.tls_key, self.tls_client_ca
            )
            object.__setattr__(self, "grpc_tls", tls)
