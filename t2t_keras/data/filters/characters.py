"""Properties of Unicode characters, as tables over all code points."""

import functools
import unicodedata

import numpy as np
import regex

SPACE = 1
"""White space."""
LETTER = 2
"""Letters, and marks such as the vowel signs of Devanagari."""
SCRIPTED = 4
"""Letters that belong to a script."""
WIDE = 8
"""Characters of East Asia that are two columns wide: Han, kana, Hangul and others."""
UNSPACED = 16
"""Characters of scripts without spaces between words."""
TERMINAL = 32
"""Punctuation that ends a sentence."""
ALPHANUMERIC = 64
"""Letters, marks and numbers."""

WORD_UNITS = 30
"""Units of `word_units` that make a word."""

# Typical lengths of the counterpart of an English word: 1.5 Han characters in Chinese,
# 2.5 kana in Japanese, 5 characters in the scripts of Southeast Asia.
_SCRIPTS_BY_UNITS = {
    20: ("Hani", "Nshu", "Tang", "Yiii"),
    12: ("Hira", "Kana", "Bopo"),
    6: (
        *("Thai", "Laoo", "Khmr", "Mymr", "Lana", "Talu", "Tale", "Tavt", "Tibt"),
        *("Java", "Bali"),
    ),
}
# Punctuation in text without spaces is no word. The prolonged sound mark and the middle
# dot belong to several scripts.
_EAST_ASIAN_PUNCTUATION = (
    r"\u3000-\u303f\u30fb\u30fc\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
)
_CLASSES = {
    SPACE: r"\s",
    LETTER: r"[\p{L}\p{M}]",
    SCRIPTED: r"[\p{L}--[\p{sc=Zyyy}\p{sc=Zinh}]]",
    WIDE: r"[\p{sc=Hani}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Bopo}\p{sc=Yiii}"
    r"\p{sc=Tang}\p{sc=Nshu}\u3000-\u303f\uff01-\uff60]",
    TERMINAL: r"[.!?\u2026\u203c\u203d\u2047-\u2049\u3002\uff0e\uff01\uff1f\uff61\u061f"
    r"\u06d4\u0964\u0965\u0589\u1362\u1367\u17d4\u17d5\u104a\u104b\u0f0d\u0f0e]",
    ALPHANUMERIC: r"[\p{L}\p{M}\p{N}]",
}
_CODE_POINTS = 0x110000


@functools.cache
def _all_characters() -> str:
    # Surrogates are not characters. NUL takes their places.
    return "".join(
        chr(0 if 0xD800 <= code < 0xE000 else code) for code in range(_CODE_POINTS)
    )


def matching(character_class: str) -> np.ndarray:
    """Returns which code points a character class matches.

    Args:
        character_class: A class in the syntax of the package `regex`, version 1.

    Returns:
        `[0x110000]` bool.
    """
    table = np.zeros(_CODE_POINTS, bool)
    for match in regex.finditer(f"(?V1){character_class}+", _all_characters()):
        table[slice(*match.span())] = True
    return table


def script_class(scripts: frozenset[str]) -> str:
    """Returns the character class of scripts, such as `{"Latn"}`."""
    return "[" + "".join(rf"\p{{sc={script}}}" for script in sorted(scripts)) + "]"


@functools.cache
def class_flags() -> np.ndarray:
    """Returns the classes of each code point as a sum of flags, `[0x110000]` uint8."""
    table = np.zeros(_CODE_POINTS, np.uint8)
    for flag, character_class in _CLASSES.items():
        table[matching(character_class)] |= flag
    table[word_units() > 0] |= UNSPACED
    table[matching(f"[{_EAST_ASIAN_PUNCTUATION}]")] |= UNSPACED
    return table


@functools.cache
def word_units() -> np.ndarray:
    """Returns the share of a word of each code point, `[0x110000]` uint8.

    `WORD_UNITS` units make a word. Characters of scripts with spaces between words have
    0 units.
    """
    table = np.zeros(_CODE_POINTS, np.uint8)
    for units, scripts in _SCRIPTS_BY_UNITS.items():
        table[matching(script_class(frozenset(scripts)))] = units
    table[matching(f"[{_EAST_ASIAN_PUNCTUATION}]")] = 0
    return table


@functools.cache
def digit_values() -> np.ndarray:
    """Returns the values of decimal digits of all scripts, `[0x110000]` uint8.

    Other characters have the value 0.
    """
    table = np.zeros(_CODE_POINTS, np.uint8)
    for match in regex.finditer(r"\p{Nd}", _all_characters()):
        table[match.start()] = unicodedata.decimal(match[0], 0)
    return table
