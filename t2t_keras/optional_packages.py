"""Optional packages, grouped by the extra of setup.py that installs them."""

import importlib.util

from t2t_keras.errors import UserError

EXTRAS = {
    "server": (
        "grpc",
        "grpc_health",
        "h11",
        "prometheus_client",
        "starlette",
        "uvicorn",
    ),
    "client": ("grpc", "urllib3"),
    "visualize": ("matplotlib",),
    "cldr": ("babel", "num2words"),
    "moses": ("sacremoses",),
    "hub": ("huggingface_hub", "kagglehub"),
    "langid": ("py3langid",),
    "convert": ("ctranslate2",),
    "beam": ("apache_beam",),
}
"""The top-level modules that each extra provides."""


class MissingExtra(UserError, ImportError):
    """A package of an extra is not installed."""


def require_extra(extra: str, purpose: str, *modules: str) -> None:
    """Checks that the packages of an extra are installed, without importing them.

    Args:
        extra: A key of `EXTRAS`.
        purpose: The feature that needs them; the subject of the message.
        *modules: The required modules of the extra. Default all of them.

    Raises:
        MissingExtra: If a package is missing. The message says how to install it.
    """
    missing = [
        module
        for module in modules or EXTRAS[extra]
        if importlib.util.find_spec(module) is None
    ]
    if missing:
        raise MissingExtra(
            f"{purpose} needs packages that are not installed ({', '.join(missing)}). "
            f"Install them: pip install 't2t_keras[{extra}]'"
        )
