"""The API token that a server may demand."""

import hmac


def is_authorized(header: str | bytes | None, token: str) -> bool:
    """Tells whether a request carries the token, in the same time whatever it carries.

    Args:
        header: Its `authorization`, which should be "Bearer TOKEN".
        token: The token.
    """
    sent = header.encode("utf-8", "replace") if isinstance(header, str) else header
    return hmac.compare_digest(sent or b"", f"Bearer {token}".encode())
