"""Imports a trained model of another framework into a new model directory.

t2t-import --input=opus-mt-en-de --model_dir=DIR

All other stages work on the directory. To train the model further, pass it to
t2t-train as --init_from.
"""

from absl import flags

from t2t_keras.flags import paths
from t2t_keras.messages import describe
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

# Other stages have flags of the same names with other values.
flags.DEFINE_string(
    "input",
    None,
    "Model to import, a file or a directory.",
    allow_override=True,
)
flags.DEFINE_enum(
    "format",
    "auto",
    ["auto", "hf_marian", "marian", "bergamot"],
    "Format of the model: hf_marian is a directory of Hugging Face with a Marian model "
    "(OPUS-MT); marian, a directory of Marian with a .npz archive; bergamot, a "
    "directory of Firefox Translations or Bergamot with a binary model. auto detects "
    "the format.",
    allow_override=True,
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.interop.formats import read_model
    from t2t_keras.interop.imported_model import write_model_dir

    imported = read_model(FLAGS.input, FLAGS.format)
    write_model_dir(imported, FLAGS.model_dir)
    sizes = imported.config.vocab_sizes()
    stage.report(
        f"Imported {FLAGS.input} ({imported.origin.format}) to {FLAGS.model_dir}: "
        + describe(
            parameters=sum(array.size for array in imported.arrays.values()),
            source_vocabulary=sizes[0],
            target_vocabulary=sizes[1],
        )
    )


def run() -> None:
    """Console entry point."""
    stage.run(main, __name__, [paths.MODEL_DIR], required=["input", "model_dir"])


if __name__ == "__main__":
    run()
