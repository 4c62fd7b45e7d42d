"""Flags that a model server and its clients share.

The API token itself is not a flag, since other users could see it in the process list.
"""

import os
from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError

FLAGS = flags.FLAGS

flags.DEFINE_string("model_name", "default", "Name of the model on the server.")
flags.DEFINE_string(
    "token_file",
    None,
    "File with the API token. Default: the environment variable T2T_TOKEN, or no "
    "token.",
)
flags.DEFINE_string(
    "tls_certificate",
    None,
    "PEM file with the certificate chain of the server or, for t2t-request, of the "
    "client, for servers that require client certificates. Enables TLS. Default: no"
    " certificate.",
)
flags.DEFINE_string(
    "tls_key",
    None,
    "PEM file with the unencrypted private key of --tls_certificate. Default: no key.",
)


def read_token() -> str | None:
    """Returns the API token, or None if none is configured.

    Raises:
        UserError: If the file cannot be read, or its token cannot be sent.
    """
    if FLAGS.token_file:
        try:
            token = Path(FLAGS.token_file).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise UserError(f"--token_file={FLAGS.token_file}: {error}") from error
        if not token:
            raise UserError(f"--token_file={FLAGS.token_file}: the file is empty.")
    else:
        token = os.environ.get("T2T_TOKEN", "")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UserError("The API token must be printable ASCII without spaces.")
    return token or None
