"""The certificate that a server shows, and those it asks of its clients."""

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
    """How a server proves who it is, and whom it answers: the contents of PEM files.

    Args:
        certificate: The certificate chain.
        key: Its key, not encrypted.
        client_ca: Who signs the certificates that clients must have; None if they need
            none.

    Raises:
        UserError: If they cannot be used, or do not belong together.
    """

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    client_ca: bytes | None = None

    def __post_init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Python takes certificates and keys from files alone.
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
                    f"The certificate authority of clients is none: {error}"
                ) from error

    @classmethod
    def of_files(
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
        """Returns what gRPC takes."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            self.client_ca,
            require_client_auth=self.client_ca is not None,
        )
