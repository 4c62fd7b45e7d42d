"""The API token that a server may demand."""

import hmac


def is_authorized(header: str | bytes | None, token: str) -> bool:
    """Tells whether a request carries the token, in the same time whatever it carries.

    Args:
        header: Its `authorization`, which should be "Bearer TOKEN".
        token: The token.
    """
    sent = header.encode("utf-8", "replace") if isinstance(header, str) else header
    # The name of a scheme may be written in any case (RFC 9110, section 11.1).
    scheme, _, credentials = (sent or b"").partition(b" ")
    is_bearer = scheme.lower() == b"bearer"
    is_token = hmac.compare_digest(credentials.strip(b" "), token.encode())
    return is_bearer and is_token
