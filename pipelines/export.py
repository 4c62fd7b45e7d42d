"""Writes a model as a SavedModel for TensorFlow Serving: strings in, strings out.

t2t-export --model_dir=DIR --export_dir=BASE
"""

from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from t2t_keras.flags import decoding, paths
from t2t_keras.pipelines import stage

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.transformer import Transformer

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "export_dir", None, "Directory of the model's versions; one is added to it."
)
flags.DEFINE_integer("version", 0, "Number of the version; 0: the next one.", 0)
flags.DEFINE_integer(
    "export_n_best", 0, "Hypotheses of the signature n_best; 0: all beams.", 0
)
flags.DEFINE_integer(
    "max_input_tokens", 1024, "A longer sentence is cut after so many tokens.", 1
)
flags.DEFINE_enum(
    "weights_dtype",
    "float32",
    ["float32", "bfloat16", "float16"],
    "What weights are stored as. The small ones halve the size; what is computed is "
    "float32 all the same, and the difference in BLEU is printed.",
)
flags.DEFINE_bool("keras_file", True, "Also write the weights as model.keras.")

_CHECKED = 16
_SCORED = 1000


def main() -> None:
    """Runs the stage."""
    from t2t_keras.decoding.options import SearchOptions
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.serving.export import EXTRA, model_card, write_card
    from t2t_keras.serving.servable import TranslationServable
    from t2t_keras.serving.version_dirs import new_version, versions_of
    from t2t_keras.serving.warmup import write_warmup

    model_dir = ModelDir(FLAGS.model_dir)
    options = SearchOptions(**decoding.search_options())
    models = [model_dir.load_model(checkpoint) for checkpoint in FLAGS.checkpoint]
    translator = Translator(
        models,
        model_dir.tokenizers,
        options,
        FLAGS.decode_batch_tokens,
        FLAGS.max_input_tokens,
    )
    serving = {
        **decoding.search_options(),
        "n_best": FLAGS.export_n_best or options.beam_size,
        "max_input_tokens": FLAGS.max_input_tokens,
        "weights_dtype": FLAGS.weights_dtype,
    }
    sources = _held_back(model_dir, "source")
    with new_version(FLAGS.export_dir, FLAGS.version) as path:
        if FLAGS.keras_file:
            (path / EXTRA).mkdir()
            for number, model in enumerate(models):
                name = f"model{number or ''}.keras"
                model.save(path / EXTRA / name)
        if FLAGS.weights_dtype != "float32":
            serving["bleu_difference"] = _shrink(models, translator, model_dir)
        servable = TranslationServable(
            models,
            model_dir.tokenizers,
            options,
            serving["n_best"],
            FLAGS.max_input_tokens,
            FLAGS.weights_dtype,
        )
        stage.report("Writing the SavedModel ...")
        servable.save(path)
        samples = sources[:_CHECKED] or [""]
        requests = [
            (signature, rows)
            for rows in (samples[:1], samples)
            for signature in ("serving_default", "n_best")
        ]
        write_warmup(path, requests)
        _check(path, samples, translator)
        write_card(path, model_card(model_dir, FLAGS.checkpoint, models, serving))
        size = sum(f.stat().st_size for f in (path / "variables").iterdir())
    newest = FLAGS.version or max(versions_of(FLAGS.export_dir))
    print(
        f"Wrote {Path(FLAGS.export_dir) / str(newest)}: {size / 1e6:,.1f} MB of "
        f"{FLAGS.weights_dtype} weights."
    )


def _held_back(model_dir: "ModelDir", side: str) -> list[str]:
    """Returns sentences that the model was not trained on, if there are any."""
    from t2t_keras.data.lines import read_lines
    from t2t_keras.data.preparation import text_path

    for split in ("dev", "test"):
        path = text_path(model_dir.path, split, side)
        if path.is_file():
            return list(read_lines(path))[:_SCORED]
    return []


def _shrink(
    models: "list[Transformer]", translator: "Translator", model_dir: "ModelDir"
) -> float | None:
    """Rounds the weights to what is stored, and says what that costs."""
    from t2t_keras.evaluation.bleu import corpus_bleu
    from t2t_keras.serving.servable import stored

    sources, references = (_held_back(model_dir, s) for s in ("source", "target"))

    def bleu() -> float:
        return corpus_bleu(
            [b[0].text for b in translator.translate(sources)], references
        )

    if sources:
        stage.report(f"Translating {len(sources):,} sentences with both weights ...")
    before = bleu() if sources else 0.0
    for model in models:
        for variable in model.variables:
            variable.assign(stored(variable, FLAGS.weights_dtype))
    if not sources:
        stage.report("There is no held-back text to tell the difference in BLEU by.")
        return None
    after = bleu()
    print(
        f"BLEU {before:.2f} with float32, {after:.2f} with {FLAGS.weights_dtype} "
        f"weights: {after - before:+.2f}"
    )
    return round(after - before, 4)


def _check(path: Path, samples: list[str], translator: "Translator") -> None:
    """Loads the export as TensorFlow Serving does and asks it.

    Raises:
        RuntimeError: If it does not answer as `t2t-translate` does.
    """
    import numpy as np

    from t2t_keras.serving.saved_model import DEFAULT_SIGNATURE, SavedModel

    if FLAGS.sample:
        stage.report("Draws at random are not compared with those of t2t-translate.")
        return
    model = SavedModel(path)
    text = np.array([sample.encode() for sample in samples], object)
    found = model.run(DEFAULT_SIGNATURE, {"text": text}, {"translation", "status"})
    model.close()
    for sample, (best, *_), answer, status in zip(
        samples,
        translator.translate(samples),
        found["translation"],
        found["status"],
        strict=True,
    ):
        if (best.text, best.status) != (answer.decode(), status.decode()):
            raise RuntimeError(
                f"The export translates {sample!r} as {answer.decode()!r} "
                f"({status.decode()}), t2t-translate as {best.text!r}."
            )
    stage.report(f"{len(samples)} sentences come out as from t2t-translate.")


def run() -> None:
    """Is the console script."""
    stage.run(main, __name__, [paths.MODEL_DIR, decoding], ["model_dir", "export_dir"])


if __name__ == "__main__":
    run()
