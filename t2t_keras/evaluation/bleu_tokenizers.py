"""Choice of sacreBLEU's tokenizer for BLEU by target language.

BLEU counts words. The default tokenizer, 13a, splits at spaces. Chinese, Japanese, Thai
and other languages are written without spaces, so 13a treats a whole sentence as one
word. For Chinese, Japanese and Korean, sacreBLEU itself uses other tokenizers.
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
"""Choose the tokenizer by the language."""

_DEFAULT = BLEU.TOKENIZER_DEFAULT
_FALLBACK = "char"
"""Scores characters. Needs no other package and works for scripts without spaces."""

_CHINESE = "zh zho chi cmn yue lzh wuu nan hak gan hsn cn"
_WITHOUT_SPACES = "th tha lo lao km khm my mya bur shn bo bod tib dz dzo"
_BY_LANGUAGE = {
    **dict.fromkeys(_CHINESE.split(), "zh"),
    **dict.fromkeys(["ja", "jpn", "jp"], "ja-mecab"),
    **dict.fromkeys(["ko", "kor"], "ko-mecab"),
    **dict.fromkeys(_WITHOUT_SPACES.split(), "flores200"),
}
"""ISO 639 codes of two and three letters, and common wrong codes."""

_BY_SCRIPT = {
    **dict.fromkeys(["hans", "hant", "hani"], "zh"),
    **dict.fromkeys(["jpan", "hira", "kana", "hrkt"], "ja-mecab"),
    **dict.fromkeys(["kore", "hang"], "ko-mecab"),
    **dict.fromkeys(["thai", "laoo", "khmr", "mymr", "tibt"], "flores200"),
}
"""ISO 15924 codes in lower case. All other scripts separate words by spaces."""

_NAMES_WITHOUT_SPACES = re.compile("CJK|HIRAGANA|KATAKANA|THAI|LAO|KHMER|MYANMAR|TIBET")
_SAMPLE_LINES = 100


class TokenizerChoice(NamedTuple):
    """A chosen tokenizer.

    Attributes:
        name: Name of the tokenizer in sacreBLEU.
        note: Warning for the user if it replaces one that is not installed, or if it
            does not suit the text. Otherwise empty.
    """

    name: str
    note: str = ""


def choose_tokenizer(
    lang: str, wanted: str = AUTO, references: Sequence[str] = ()
) -> TokenizerChoice:
    """Chooses the tokenizer for BLEU.

    Args:
        lang: Code of the target language, such as "zh", "zh-CN", "zho_Hans" or "jpn".
            If it contains a script, the script decides.
        wanted: Name of a tokenizer in sacreBLEU, or "auto" to choose by language: zh,
            ja-mecab or ko-mecab; flores200 for other languages written without spaces,
            if its model is on this machine; char if that model or MeCab is missing; 13a
            for all other languages. Default "auto".
        references: References to check whether the tokenizer suits them. Default none.

    Raises:
        UserError: If `wanted` is unknown, or is not "auto" and cannot be loaded.
    """
    if wanted != AUTO:
        if wanted not in BLEU.TOKENIZERS:
            raise UserError(
                f"The BLEU tokenizer must be one of {AUTO}, "
                f"{', '.join(BLEU.TOKENIZERS)}. Received: {wanted!r}"
            )
        if reason := _load_error(wanted):
            raise UserError(f"The BLEU tokenizer {wanted} cannot be used: {reason}")
        return TokenizerChoice(wanted, _mismatch(wanted, references))
    best = _tokenizer_of(lang)
    if best in SPM_MODELS and not _is_downloaded(best):
        reason = (
            f"its model is not on this machine. --bleu_tokenizer={best} downloads it."
        )
    else:
        reason = _load_error(best)
    if not reason:
        return TokenizerChoice(best, _mismatch(best, references))
    return TokenizerChoice(
        _FALLBACK,
        f"BLEU is computed over characters (tokenizer {_FALLBACK}), not over the words "
        f"of {best}: {reason}",
    )


def _tokenizer_of(lang: str) -> str:
    """Returns the best tokenizer for a language, even if it is not installed."""
    language, *subtags = re.split(r"[^a-z0-9]+", lang.strip().lower())
    for subtag in subtags:
        if len(subtag) == 4 and subtag.isalpha():
            return _BY_SCRIPT.get(subtag, _DEFAULT)
    return _BY_LANGUAGE.get(language, _DEFAULT)


def _mismatch(tokenizer: str, references: Sequence[str]) -> str:
    """Returns a warning if a tokenizer needs spaces that the text does not have."""
    if tokenizer not in (_DEFAULT, "intl"):
        return ""
    sample = "".join(references[:_SAMPLE_LINES])
    letters = [character for character in sample if character.isalpha()]
    unspaced = sum(
        bool(_NAMES_WITHOUT_SPACES.match(unicodedata.name(character, "")))
        for character in letters
    )
    if 2 * unspaced <= len(letters):
        return ""
    return (
        f"The BLEU tokenizer {tokenizer} expects spaces between words, and the "
        "references have none, so this BLEU is meaningless. Set --target_lang (for a "
        "model: in t2t-prepare) or --bleu_tokenizer."
    )


def _is_downloaded(tokenizer: str) -> bool:
    file = os.path.basename(SPM_MODELS[tokenizer]["url"])
    path = os.path.join(SACREBLEU_DIR, "models", file)
    return os.path.isfile(path) and os.path.getsize(path) > 0


def _load_error(tokenizer: str) -> str:
    """Returns why a tokenizer cannot be loaded, or an empty string if it can."""
    try:
        BLEU(tokenize=tokenizer)
    # The exception depends on what is missing, and a failed download may call exit.
    except (Exception, SystemExit) as error:
        if tokenizer.endswith("-mecab"):
            extra = f'"sacrebleu[{tokenizer.removesuffix("-mecab")}]"'
            return f"it is not installed. Install it with: pip install {extra}"
        return " ".join(f"{type(error).__name__}: {error}".split())
    return ""
