"""The directories that stages hand to each other."""

from absl import flags

DATA_DIR = flags.DEFINE_string("data_dir", None, "Directory of prepared data.")
MODEL_DIR = flags.DEFINE_string("model_dir", None, "Directory of the model.")
OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Directory to write into.")
