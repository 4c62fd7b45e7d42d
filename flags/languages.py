"""Flags of the source and target languages, as codes such as en."""

from absl import flags

SOURCE_LANG = flags.DEFINE_string(
    "source_lang", "en", "Source language, as an ISO 639 code."
)
TARGET_LANG = flags.DEFINE_string(
    "target_lang", "de", "Target language, as an ISO 639 code."
)
