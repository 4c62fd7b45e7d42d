"""A certificate and its key, for either side of a connection."""

import ssl
from pathlib import Path

from t2t_keras.errors import UserError


def load_pair(
    context: ssl.SSLContext, certificate: str | Path, key: str | Path
) -> None:
    """Gives a context the certificate that it shows.

    Args:
        context: Of a client or a server.
        certificate: PEM file of the certificate chain.
        key: PEM file of its key, not encrypted.

    Raises:
        UserError: If the files cannot be used, or do not belong together.
    """

    def no_password() -> str:
        # Or the terminal would be asked, and gRPC does not know it even then.
        raise UserError("the key is encrypted; decrypt it first")

    try:
        context.load_cert_chain(certificate, key, no_password)
    except (OSError, ValueError) as error:  # Those of ssl among them.
        raise UserError(
            f"The certificate and its key cannot be used: {error}"
        ) from error
