"""Flags of scoring translations."""

from absl import flags

BLEU_TOKENIZER = flags.DEFINE_string(
    "bleu_tokenizer",
    "auto",
    "sacreBLEU tokenizer for BLEU: 13a, zh, ja-mecab, ko-mecab, char, intl, "
    "flores200 and so on. auto uses the one for the target language, or char if "
    "that one is not installed.",
)
