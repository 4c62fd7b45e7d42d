"""Which of sacreBLEU's tokenizers BLEU is computed with, by target language.

BLEU counts words. 13a, the default, finds them between spaces, of which Chinese,
Japanese, Thai and others have none: it takes each sentence for one word. sacreBLEU
itself chooses another tokenizer for Chinese, Japanese and Korean.
"""

import os
import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
from sacrebleu.utils import SACREBLEU_DIR

from t2t_keras.errors import UserError

AUTO = "auto"
"""Stands for the tokenizer that suits the language."""

_DEFAULT = BLEU.TOKENIZER_DEFAULT
_FALLBACK = "char"
"""Needs nothing and tells words from nothing: for any script without spaces."""

_CHINESE = "zh zho chi cmn yue lzh wuu nan hak gan hsn cn"
_WITHOUT_SPACES = "th tha lo lao km khm my mya bur shn bo bod tib dz dzo"
_BY_LANGUAGE = {
    **dict.fromkeys(_CHINESE.split(), "zh"),
    **dict.fromkeys(["ja", "jpn", "jp"], "ja-mecab"),
    **dict.fromkeys(["ko", "kor"], "ko-mecab"),
    **dict.fromkeys(_WITHOUT_SPACES.split(), "flores200"),
}
"""ISO 639 codes of two and three letters, and what they are often mistaken for."""

_BY_SCRIPT = {
    **dict.fromkeys(["hans", "hant", "hani"], "zh"),
    **dict.fromkeys(["jpan", "hira", "kana", "hrkt"], "ja-mecab"),
    **dict.fromkeys(["kore", "hang"], "ko-mecab"),
    **dict.fromkeys(["thai", "laoo", "khmr", "mymr", "tibt"], "flores200"),
}
"""ISO 15924 codes, in lower case. All other scripts divide words by spaces."""

_NAMES_WITHOUT_SPACES = re.compile("CJK|HIRAGANA|KATAKANA|THAI|LAO|KHMER|MYANMAR|TIBET")
_LOOKED_AT = 100


class TokenizerChoice(NamedTuple):
    """A tokenizer of sacreBLEU.

    Attributes:
        name: sacreBLEU's name of it.
        note: What to tell the user: that it stands in for one that is not installed, or
            does not suit the text. Empty if all is well.
    """

    name: str
    note: str = ""


def choose_tokenizer(
    lang: str, wanted: str = AUTO, references: Sequence[str] = ()
) -> TokenizerChoice:
    """Chooses the tokenizer that BLEU is computed with.

    Args:
        lang: The target language's code, such as "zh", "zh-CN", "zho_Hans" or "jpn".
            Where it names a script, the script decides.
        wanted: sacreBLEU's name of a tokenizer, or "auto" for the one that suits the
            language: zh, ja-mecab, ko-mecab; flores200 for other languages written
            without spaces, if its model is on this machine; char if it or MeCab is
            not; 13a for all others. Default "auto".
        references: Text of that language to check the choice by. Default none.

    Raises:
        UserError: If there is no such tokenizer, or it is wanted by name and cannot
            be loaded.
    """
    if wanted != AUTO:
        if wanted not in BLEU.TOKENIZERS:
            raise UserError(
                f"BLEU tokenizers are {AUTO}, {', '.join(BLEU.TOKENIZERS)}. Received: "
                f"{wanted!r}"
            )
        if reason := _why_not(wanted):
            raise UserError(f"The BLEU tokenizer {wanted} cannot be used: {reason}")
        return TokenizerChoice(wanted, _mismatch(wanted, references))
    best = _tokenizer_of(lang)
    if best in SPM_MODELS and not _is_downloaded(best):
        reason = (
            f"its model is not on this machine. --bleu_tokenizer={best} downloads it."
        )
    else:
        reason = _why_not(best)
    if not reason:
        return TokenizerChoice(best, _mismatch(best, references))
    return TokenizerChoice(
        _FALLBACK,
        f"BLEU is computed over characters (tokenizer {_FALLBACK}), not over the words "
        f"of {best}: {reason}",
    )


def _tokenizer_of(lang: str) -> str:
    """Returns the best tokenizer for a language, whether it is installed or not."""
    language, *subtags = re.split(r"[^a-z0-9]+", lang.strip().lower())
    for subtag in subtags:
        if len(subtag) == 4 and subtag.isalpha():
            return _BY_SCRIPT.get(subtag, _DEFAULT)
    return _BY_LANGUAGE.get(language, _DEFAULT)


def _mismatch(tokenizer: str, references: Sequence[str]) -> str:
    """Says so if a tokenizer looks for spaces in text that is written without."""
    if tokenizer not in (_DEFAULT, "intl"):
        return ""
    sample = "".join(references[:_LOOKED_AT])
    letters = [character for character in sample if character.isalpha()]
    unspaced = sum(
        bool(_NAMES_WITHOUT_SPACES.match(unicodedata.name(character, "")))
        for character in letters
    )
    if 2 * unspaced <= len(letters):
        return ""
    return (
        f"The BLEU tokenizer {tokenizer} expects spaces between words, and the "
        "references have none: this BLEU is meaningless. Set --target_lang (of "
        "t2t-prepare, for a model) or --bleu_tokenizer."
    )


def _is_downloaded(tokenizer: str) -> bool:
    file = os.path.basename(SPM_MODELS[tokenizer]["url"])
    path = os.path.join(SACREBLEU_DIR, "models", file)
    return os.path.isfile(path) and os.path.getsize(path) > 0


def _why_not(tokenizer: str) -> str:
    """Returns why a tokenizer cannot be loaded, or an empty string."""
    try:
        BLEU(tokenize=tokenizer)
    # What is raised, and by whom, depends on what is missing; downloads may exit.
    except (Exception, SystemExit) as error:
        if tokenizer.endswith("-mecab"):
            extra = f'"sacrebleu[{tokenizer.removesuffix("-mecab")}]"'
            return f"it is not installed. Install it with: pip install {extra}"
        return " ".join(f"{type(error).__name__}: {error}".split())
    return ""
