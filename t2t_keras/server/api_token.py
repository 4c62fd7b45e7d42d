"""API token authentication."""

import hmac


def is_authorized(header: str | bytes | None, token: str) -> bool:
    """Returns whether a request carries the token, compared in constant time.

    Args:
        header: The request's `authorization` header, expected to be "Bearer TOKEN".
        token: The API token.
    """
    sent = header.encode("utf-8", "replace") if isinstance(header, str) else header
    # The scheme is case-insensitive (RFC 9110, section 11.1).
    scheme, _, credentials = (sent or b"").partition(b" ")
    is_bearer = scheme.lower() == b"bearer"
    is_token = hmac.compare_digest(credentials.strip(b" "), token.encode())
    return is_bearer and is_token
