"""Filters for what remains of web pages: tags, entities, addresses."""

import re

import numpy as np

from t2t_keras.data.filters.text_filter import SideFilter
from t2t_keras.data.filters.texts import Texts

# Quantifiers are bounded or possessive: matching takes linear time on any text.
_TAG = re.compile(
    r"</?[a-zA-Z][a-zA-Z0-9]{0,15}+(?:[\s/][^<>]{0,1000}+)?>"
    r"|<!--|<!\[CDATA\["
    r"|&(?:[a-zA-Z]{2,8}|#[0-9]{2,7}|#[xX][0-9a-fA-F]{2,6});"
)
_ADDRESS = re.compile(
    r"\b(?:https?|ftp)://\S++"
    r"|\bwww\.[^\s.]++\.\S++"
    r"|\b[\w.+-]{1,64}+@[\w-]{1,63}+\.[\w.-]++"
)


class HtmlTagFilter(SideFilter):
    """Rejects pairs with tags or character references of HTML or XML on a side.

    `HtmlTagFilter` of OpusFilter. References such as `&amp;` count, too.
    """

    name = "html_tag"

    def _keep_side(self, texts: Texts) -> np.ndarray:
        return np.fromiter(
            (
                not (("<" in text or "&" in text) and _TAG.search(text))
                for text in texts
            ),
            bool,
            len(texts),
        )


class UrlFilter(SideFilter):
    """Rejects pairs with a side that consists mostly of web or e-mail addresses.

    Args:
        max_url_share: Maximum share of addresses in the characters, white space
            included.
    """

    name = "url"

    def __init__(self, max_url_share: float) -> None:
        self.max_url_share = max_url_share

    def _keep_side(self, texts: Texts) -> np.ndarray:
        return np.fromiter(map(self._keep_text, texts), bool, len(texts))

    def _keep_text(self, text: str) -> bool:
        if "://" not in text and "www." not in text and "@" not in text:
            return True
        found = sum(match.end() - match.start() for match in _ADDRESS.finditer(text))
        return found <= self.max_url_share * len(text)
