"""What is shown of translations."""

from absl import flags

FLAGS = flags.FLAGS

flags.DEFINE_integer(
    "n_best",
    1,
    "Translations of each line. With more than one, each is a line of its own: the "
    "input line's number, the score and the text, divided by tabs. The score is empty "
    "where none was computed, as the line is empty or was not translated.",
    1,
)
flags.DEFINE_bool(
    "print_scores",
    False,
    "Put the score and a tab before each line; the score as with --n_best.",
)
flags.DEFINE_enum(
    "output_format",
    "text",
    ["text", "json"],
    "json: an object a line, with the hypotheses, their scores (null where none was "
    "computed) and the status of the input (ok; empty; too_long, cut and translated up "
    "to there; not translated: "
    "invalid_utf8, model_error if the model computes numbers that are not finite, "
    "not_found if no output obeys the rules of the search); from t2t-translate also "
    "the tokens that were found, their log-probabilities and the alignment of words.",
)
