"""A web page in one piece: its style, scripts and data stand in the document."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import Any


def assemble(folder: Traversable, data: Mapping[str, Any]) -> str:
    """Returns a folder's `page.html` with its parts in the place of their names.

    Args:
        folder: Of `page.html`, and of each file that it names as `{{style.css}}`.
        data: What it names otherwise: values that are inserted as JSON.
    """

    def insert(place: re.Match[str]) -> str:
        name = place[1]
        if name in data:
            # No text of a user's may end the element that it stands in.
            return json.dumps(data[name]).replace("<", "\\u003c")
        return (folder / name).read_text(encoding="utf-8")

    page = (folder / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{([\w.]+)\}\}", insert, page)


def hashes(page: str, tag: str) -> str:
    """Returns the sources that a Content-Security-Policy allows a page's elements by.

    Args:
        page: HTML.
        tag: "style" or "script"; elements with attributes are left out.
    """
    contents = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    digests = [hashlib.sha256(content.encode()).digest() for content in contents]
    return " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)
