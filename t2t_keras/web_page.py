"""Self-contained web pages with inline style, scripts and data."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any


def assemble(folder: Traversable, data: Mapping[str, Any]) -> str:
    """Returns `page.html` of a folder with its `{{name}}` placeholders filled in.

    Args:
        folder: Folder with `page.html` and each file that it includes, such as
            `{{style.css}}`.
        data: Values for the other placeholders, inserted as JSON.
    """

    def insert(place: re.Match[str]) -> str:
        name = place[1]
        if name in data:
            # Escape "<", so that user text cannot close the surrounding element.
            return json.dumps(data[name]).replace("<", "\\u003c")
        return (folder / name).read_text(encoding="utf-8")

    page = (folder / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{([\w.]+)\}\}", insert, page)


def hashes(page: str, tag: str) -> str:
    """Returns the Content-Security-Policy hashes of inline elements.

    Args:
        page: HTML.
        tag: "style" or "script". Elements with attributes are skipped.
    """
    contents = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    digests = [hashlib.sha256(content.encode()).digest() for content in contents]
    return " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)
