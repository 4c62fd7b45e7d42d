"""Loads a certificate and its key for a client or a server."""

import ssl
from pathlib import Path

from t2t_keras.errors import UserError


def load_pair(
    context: ssl.SSLContext, certificate: str | Path, key: str | Path
) -> None:
    """Loads a certificate and its key into an SSL context.

    Args:
        context: Context of a client or a server.
        certificate: PEM file with the certificate chain.
        key: PEM file with the unencrypted key.

    Raises:
        UserError: If the files cannot be used or do not match.
    """

    def no_password() -> str:
        # Without it, OpenSSL asks on the terminal, and gRPC still lacks the password.
        raise UserError("the key is encrypted; decrypt it first")

    try:
        context.load_cert_chain(certificate, key, no_password)
    except (OSError, ValueError) as error:  # Includes errors of ssl.
        raise UserError(
            f"The certificate and its key cannot be used: {error}"
        ) from error
