"""Default limits of a server, for `t2t-serve` and the classes of `t2t_keras.server`.

They are not in that package, because `t2t-serve --help` works without its extra.
"""

MAX_REQUEST_BYTES = 16 << 20
MAX_RESPONSE_BYTES = 64 << 20
MAX_REQUEST_ROWS = 1024
MAX_CONCURRENT_REQUESTS = 512
REQUEST_SECONDS = 60.0
"""Maximum time for a request."""
GRACE_SECONDS = 30.0
"""Time that running requests get to finish during shutdown."""
