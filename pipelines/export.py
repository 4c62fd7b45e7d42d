"""Exports a model: for TensorFlow Serving, or in the format of another library.

t2t-export --model_dir=DIR --export_dir=BASE
t2t-export --model_dir=DIR --export_dir=DIR --format=ctranslate2
t2t-export --model_dir=DIR --export_dir=DIR --format=hf

A SavedModel is a new numbered version directory in BASE. It translates strings, and is
checked against t2t-translate before it becomes visible to a server. The other formats
fill a new or empty directory.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import decoding, paths, scores
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import saved_model_export, standard_streams

if TYPE_CHECKING:
    from t2t_keras.model_dir import ModelDir

FLAGS = flags.FLAGS


class _Format(NamedTuple):
    """A format of exported models.

    Attributes:
        write: Writes the export, following the flags.
        weights_dtypes: Possible values of --weights_dtype.
    """

    write: "Callable[[ModelDir], None]"
    weights_dtypes: tuple[str, ...]


def _write_ctranslate2(model_dir: "ModelDir") -> None:
    """Fills a directory for CTranslate2, following the flags."""
    from t2t_keras.interop.ctranslate2_export import export_ctranslate2

    _fill(export_ctranslate2, model_dir)


def _write_hugging_face(model_dir: "ModelDir") -> None:
    """Fills a directory for Hugging Face's transformers, following the flags."""
    from t2t_keras.interop.hf_export import export_hugging_face

    _fill(export_hugging_face, model_dir)


def _fill(export: Callable[..., int], model_dir: "ModelDir") -> None:
    """Fills a directory and reports the size of the weights.

    Args:
        export: Function with the arguments of `export_ctranslate2`.
        model_dir: The model directory.
    """
    from t2t_keras.decoding.options import SearchOptions

    size = export(
        model_dir,
        FLAGS.export_dir,
        _checkpoint(),
        SearchOptions(**decoding.search_options(model_dir.search)),
        FLAGS.weights_dtype,
        FLAGS.max_input_tokens,
    )
    print(
        f"Wrote {FLAGS.export_dir}: {size / 1e6:,.1f} MB of {FLAGS.weights_dtype} "
        "weights. README.md tells how to run the model."
    )


def _checkpoint() -> str:
    """Returns the weights to export in a format without ensembles.

    Raises:
        UserError: If there are several.
    """
    if len(FLAGS.checkpoint) != 1:
        raise UserError(
            f"--format={FLAGS.format} exports one model, not an ensemble. Received: "
            f"--checkpoint={','.join(FLAGS.checkpoint)}"
        )
    return str(FLAGS.checkpoint[0])


_FORMATS = {
    "saved_model": _Format(
        saved_model_export.write_saved_model, ("float32", "bfloat16", "float16")
    ),
    "ctranslate2": _Format(_write_ctranslate2, ("float32", "float16", "int16", "int8")),
    "hf": _Format(_write_hugging_face, ("float32", "bfloat16", "float16")),
}
_WEIGHTS_DTYPES = dict.fromkeys(d for f in _FORMATS.values() for d in f.weights_dtypes)

flags.DEFINE_enum(
    "format",
    "saved_model",
    [*_FORMATS],
    "Format of the export: saved_model for TensorFlow Serving and t2t-serve, "
    "ctranslate2, or hf for Hugging Face's transformers.",
)
flags.DEFINE_string(
    "export_dir",
    None,
    "Directory of the exported versions; a SavedModel becomes a new version in it. "
    "Other formats fill the directory, which must be new or empty.",
)
flags.DEFINE_integer(
    "max_input_tokens",
    1024,
    "Maximum number of source tokens; longer sentences are cut.",
    1,
)
flags.DEFINE_enum(
    "weights_dtype",
    "float32",
    [*_WEIGHTS_DTYPES],
    "Storage format of the weights. bfloat16, float16 and int16 halve the size, int8 "
    "divides it by 4. saved_model and hf have float32, bfloat16 and float16, "
    "ctranslate2 has all but bfloat16. A SavedModel computes in float32 regardless, "
    "and the difference in BLEU is printed.",
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.model_dir import ModelDir

    standard_streams.check_output("-")
    chosen = _FORMATS[FLAGS.format]
    _check_flags(chosen)
    chosen.write(ModelDir(FLAGS.model_dir))


def _check_flags(chosen: _Format) -> None:
    """Rejects values that the format does not have, rather than ignoring them.

    Raises:
        UserError: If a flag does not apply.
    """
    if FLAGS.weights_dtype not in chosen.weights_dtypes:
        raise UserError(
            f"--weights_dtype must be one of {', '.join(chosen.weights_dtypes)} with "
            f"--format={FLAGS.format}. Received: {FLAGS.weights_dtype}"
        )
    if chosen.write is not saved_model_export.write_saved_model:
        for flag in FLAGS.flags_by_module_dict()[saved_model_export.__name__]:
            if flag.present:
                raise UserError(
                    f"--{flag.name} applies only to --format=saved_model. Received: "
                    f"--format={FLAGS.format}"
                )


def run() -> None:
    """Console entry point."""
    shared: list[stage.SharedFlags] = [
        saved_model_export,
        paths.MODEL_DIR,
        decoding,
        scores,
    ]
    stage.run(main, __name__, shared, required=["model_dir", "export_dir"])


if __name__ == "__main__":
    run()
