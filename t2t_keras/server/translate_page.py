"""The translation page, and the details of a version that it shows."""

import contextlib
import functools
import json
from importlib import resources
from pathlib import Path
from typing import Any

from tensorflow import make_ndarray

from t2t_keras.export.model_card import EXTRA
from t2t_keras.export.warmup import read_warmup
from t2t_keras.web_page import assemble, hashes

_EXAMPLES = 3


def translate_page(max_rows: int, max_bytes: int) -> tuple[str, dict[str, str]]:
    """Returns the page and its HTTP headers.

    Args:
        max_rows: Maximum number of rows of the page's requests.
        max_bytes: Maximum size in bytes of the bodies of the page's requests.
    """
    folder = resources.files("t2t_keras.server") / "page"
    page = assemble(folder, {"limits": {"rows": max_rows, "bytes": max_bytes}})
    policy = {
        "default-src": "'none'",
        "style-src": hashes(page, "style"),
        "script-src": hashes(page, "script"),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    headers = {
        "Content-Security-Policy": "; ".join(f"{k} {v}" for k, v in policy.items()),
        "Cache-Control": "no-cache",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return page, headers


@functools.lru_cache(maxsize=64)
def about(version_dir: Path) -> dict[str, Any]:
    """Describes a version for the page, in addition to its signatures.

    Args:
        version_dir: Directory of the version.

    Returns:
        `examples`, example sentences from the warm-up requests; `source_lang` and
        `target_lang` if the model card names them.
    """
    examples: list[str] = []
    for request in read_warmup(version_dir):
        if "text" not in request.inputs:
            continue
        for sentence in make_ndarray(request.inputs["text"]).ravel():
            text = sentence.decode("utf-8", "replace").strip()
            if text and text not in examples:
                examples.append(text)
    # Foreign exports have no model card, or another file of that name.
    data: Any = None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        card = (version_dir / EXTRA / "model_card.json").read_text(encoding="utf-8")
        data = json.loads(card)["data"]
    languages = {
        name: data[name]
        for name in ("source_lang", "target_lang")
        if isinstance(data, dict) and isinstance(data.get(name), str)
    }
    return {"examples": examples[:_EXAMPLES], **languages}
