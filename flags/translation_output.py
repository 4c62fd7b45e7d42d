"""Flags of the format in which translations are written."""

from absl import flags

FLAGS = flags.FLAGS

flags.DEFINE_integer(
    "n_best",
    1,
    "Number of hypotheses per line. With more than one, each is written on its own "
    "line: line number, score and text, separated by tabs. The score is empty where"
    " none was computed: the line is empty or was not translated.",
    1,
)
flags.DEFINE_bool(
    "print_scores",
    False,
    "Write the score and a tab before each translation. The score is empty where "
    "none was computed.",
)
flags.DEFINE_enum(
    "output_format",
    "text",
    ["text", "json"],
    "Output format. json writes one object per line: the hypotheses, their scores "
    "(null where none was computed) and the status of the line. The status is ok, "
    "empty, too_long (cut at the maximum length and translated), or one of an "
    "untranslated line: invalid_utf8, model_error (the model computed non-finite "
    "numbers), not_found (no output satisfies the constraints). t2t-translate adds "
    "the output tokens, their log-probabilities and the word alignment.",
)
