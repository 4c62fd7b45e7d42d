"""Flags of the subword vocabulary."""

from absl import flags

flags.DEFINE_integer(
    "vocab_size",
    None,
    "Number of tokens of each vocabulary. Default: that of --preset (tiny 8,000, base "
    "37,000).",
    8,
)
flags.DEFINE_enum(
    "subword",
    None,
    ["bpe", "unigram", "wordpiece"],
    "Kind of subword vocabulary. Default: that of --preset (bpe for most).",
)
