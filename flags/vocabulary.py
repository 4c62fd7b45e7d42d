"""A flag for every value of a preset that shapes the vocabulary."""

from absl import flags

flags.DEFINE_integer("vocab_size", None, "Tokens of each vocabulary.", 8)
flags.DEFINE_enum(
    "subword", None, ["bpe", "unigram", "wordpiece"], "Kind of vocabulary."
)
