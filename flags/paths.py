"""The directories that stages hand to each other."""

from absl import flags

flags.DEFINE_string("data_dir", None, "Directory of prepared data.")
flags.DEFINE_string("model_dir", None, "Directory of the model.")
