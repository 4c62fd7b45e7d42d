"""How a server listens, and its limits."""

import dataclasses
from collections.abc import Mapping, Sequence

from t2t_keras.errors import UserError
from t2t_keras.server.prometheus import PATH as METRICS_PATH
from t2t_keras.server.tls import ServerTls


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """How a server listens, and its limits.

    Args:
        host: Address to listen on. Default 127.0.0.1: this machine only.
        port: Of gRPC; 0 for none. Default 8500.
        grpc_socket_path: Unix socket for gRPC, beside the port. Default none.
        grpc_arguments: Channel arguments of gRPC, such as
            "grpc.max_connection_age_ms". Default none.
        rest_api_port: Of REST and the page; 0 for none. Default 8501.
        allowed_hosts: Names by which REST may be called, as of `HttpPolicy`, beside
            `host`. Default none.
        allow_origins: Whether pages of all sites may use REST. Default False.
        metrics_path: Where metrics are over REST; None for nowhere. Default where
            TensorFlow Serving has them.
        max_request_bytes: Of a request, and of its tensors. Default 16 MiB.
        max_response_bytes: Of an answer. Default 64 MiB.
        max_connections: At once, of each protocol. Default 4,096.
        request_timeout: Seconds that a request may take. Default 60.
        rest_timeout: Likewise over REST. Default `request_timeout`.
        checks_method_names: As of `ExampleInference`. Default False.
        grace: Seconds that requests have to end in when the server does. Default 30.
        tls_certificate: PEM file of the certificate chain; with it all is encrypted.
        tls_key: PEM file of its key.
        tls_client_ca: PEM file of who signs the certificates that clients must have.
        grpc_tls: Encrypts gRPC alone, instead of these files. Default none.
        token: What requests must carry; None for nothing.

    Raises:
        UserError: If options do not go together, or a file cannot be read.
    """

    host: str = "127.0.0.1"
    port: int = 8500
    grpc_socket_path: str | None = None
    grpc_arguments: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    rest_api_port: int = 8501
    allowed_hosts: Sequence[str] = ()
    allow_origins: bool = False
    metrics_path: str | None = METRICS_PATH
    max_request_bytes: int = 16 << 20
    max_response_bytes: int = 64 << 20
    max_connections: int = 4096
    request_timeout: float = 60.0
    rest_timeout: float | None = None
    checks_method_names: bool = False
    grace: float = 30.0
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    grpc_tls: ServerTls | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        if not (self.port or self.rest_api_port or self.grpc_socket_path):
            raise UserError("port and rest_api_port are both 0: nothing to listen on.")
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise UserError("tls_certificate and tls_key go together.")
        if self.tls_client_ca and not self.tls_key:
            raise UserError("tls_client_ca goes with tls_certificate and tls_key.")
        if self.tls_key and self.grpc_tls:
            raise UserError("Either tls_certificate and tls_key, or grpc_tls.")
        if self.tls_certificate and self.tls_key:
            of_all = ServerTls.of_files(
                self.tls_certificate, self.tls_key, self.tls_client_ca
            )
            object.__setattr__(self, "grpc_tls", of_all)
