"""Flags of the directories that stages share."""

from absl import flags

DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Directory of prepared data, written by t2t-prepare."
)
MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Model directory, written by t2t-train."
)
OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Directory to write to.")
