"""TLS credentials of a server."""

import dataclasses
import ssl
import tempfile
from pathlib import Path

import grpc

from t2t_keras.certificates import load_pair
from t2t_keras.errors import UserError
from t2t_keras.files import user_path


@dataclasses.dataclass(frozen=True)
class ServerTls:
    """TLS credentials of a server: the contents of PEM files.

    Args:
        certificate: Certificate chain.
        key: Private key, not encrypted.
        client_ca: Authority that must have signed client certificates; None if clients
            need none.

    Raises:
        UserError: If they are invalid or do not match.
    """

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    client_ca: bytes | None = None

    def __post_init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Python reads certificates and keys from files only.
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("certificate", "key")]
            for file, content in zip(files, (self.certificate, self.key), strict=True):
                file.touch(0o600)
                file.write_bytes(content)
            load_pair(context, *files)
        if self.client_ca is not None:
            try:
                context.load_verify_locations(cadata=self.client_ca.decode("ascii"))
            except (OSError, ValueError) as error:
                raise UserError(
                    f"The client certificate authority is invalid: {error}"
                ) from error

    @classmethod
    def from_files(
        cls, certificate: str, key: str, client_ca: str | None = None
    ) -> "ServerTls":
        """Reads the files.

        Raises:
            UserError: If they cannot be read or used.
        """

        def content(file: str) -> bytes:
            with user_path(file, "read"):
                return Path(file).read_bytes()

        authority = content(client_ca) if client_ca else None
        pair = content(certificate), content(key)
        try:
            return cls(*pair, authority)
        except UserError as error:
            raise UserError(
                f"{error}. Received: {certificate}, {key}, {client_ca}"
            ) from error

    def grpc_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials for gRPC."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            self.client_ca,
            require_client_auth=self.client_ca is not None,
        )
