"""The languages of a text, as codes such as en."""

from absl import flags

SOURCE_LANG = flags.DEFINE_string("source_lang", "en", "Language to translate from.")
TARGET_LANG = flags.DEFINE_string("target_lang", "de", "Language of the output.")
