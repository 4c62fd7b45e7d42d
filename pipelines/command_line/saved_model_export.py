"""t2t-export --format=saved_model: strings in, strings out, for TensorFlow Serving.

The export is a new numbered version directory. It is loaded and checked against
t2t-translate before it becomes visible to a server.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras.flags import decoding
from t2t_keras.messages import report
from t2t_keras.plurals import counted

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.transformer import Transformer

FLAGS = flags.FLAGS

flags.DEFINE_integer(
    "version", 0, "Version number of the SavedModel (0 = the next free one).", 0
)
flags.DEFINE_integer(
    "export_n_best",
    0,
    "Number of hypotheses that the SavedModel's n_best signature returns (0 = all "
    "beams).",
    0,
)
flags.DEFINE_bool(
    "keras_file", True, "Also write the SavedModel's weights as model.keras."
)

_CHECKED = 16
_SCORED = 1000


def write_saved_model(model_dir: "ModelDir") -> None:
    """Writes a version with a SavedModel, following the flags.

    Args:
        model_dir: The model directory.
    """
    from t2t_keras.decoding.options import SearchOptions
    from t2t_keras.export.model_card import EXTRA, model_card, write_card
    from t2t_keras.export.servable import TranslationServable
    from t2t_keras.export.version_dirs import new_version, versions_of
    from t2t_keras.export.warmup import write_warmup
    from t2t_keras.training.weight_files import check_finite

    options = SearchOptions(**decoding.search_options(model_dir.search))
    translator, loaded = model_dir.open_translator(
        FLAGS.checkpoint,
        options,
        batch_tokens=FLAGS.decode_batch_tokens,
        max_input_tokens=FLAGS.max_input_tokens,
    )
    models = translator.models
    for model in models:
        check_finite(model.variables)
    serving = {
        **dataclasses.asdict(options),
        "n_best": FLAGS.export_n_best or options.beam_size,
        "max_input_tokens": FLAGS.max_input_tokens,
        "weights_dtype": FLAGS.weights_dtype,
    }
    sources = _held_out(model_dir, "source")
    with new_version(FLAGS.export_dir, FLAGS.version) as path:
        if FLAGS.keras_file:
            (path / EXTRA).mkdir()
            for number, model in enumerate(models):
                name = f"model{number or ''}.keras"
                model.save(path / EXTRA / name)
        if FLAGS.weights_dtype != "float32":
            serving.update(_shrink(models, translator, model_dir))
        servable = TranslationServable(
            models,
            model_dir.tokenizers,
            options,
            serving["n_best"],
            FLAGS.max_input_tokens,
            FLAGS.weights_dtype,
        )
        report("Writing the SavedModel ...")
        servable.save(path)
        samples = sources[:_CHECKED] or [""]
        requests = [
            (signature, rows)
            for rows in (samples[:1], samples)
            for signature in ("serving_default", "n_best")
        ]
        write_warmup(path, requests)
        _check(path, samples, translator)
        write_card(path, model_card(model_dir, loaded, serving))
        size = sum(f.stat().st_size for f in (path / "variables").iterdir())
    newest = FLAGS.version or max(versions_of(FLAGS.export_dir))
    print(
        f"Wrote {Path(FLAGS.export_dir) / str(newest)}: {size / 1e6:,.1f} MB of "
        f"{FLAGS.weights_dtype} weights."
    )


def _held_out(model_dir: "ModelDir", side: str) -> list[str]:
    """Returns sentences of the dev or test split, or none if it has neither."""
    from t2t_keras.data.prepared_data import text_path
    from t2t_keras.data.text_lines import read_lines

    for split in ("dev", "test"):
        path = text_path(model_dir.path, split, side)
        if path.is_file():
            return list(read_lines(path))[:_SCORED]
    return []


def _shrink(
    models: "list[Transformer]", translator: "Translator", model_dir: "ModelDir"
) -> dict[str, Any]:
    """Rounds the weights to the storage format and measures the difference in BLEU."""
    from t2t_keras.evaluation.bleu import Score, score_translations
    from t2t_keras.evaluation.bleu_tokenizers import choose_tokenizer
    from t2t_keras.export.servable import stored_value

    sources, references = (_held_out(model_dir, s) for s in ("source", "target"))
    lang = model_dir.config["data"]["target_lang"]
    tokenizer, note = choose_tokenizer(lang, FLAGS.bleu_tokenizer, references)
    if note and sources:
        report(note)

    def bleu() -> Score:
        found = [best.text for best, *_ in translator.translate(sources)]
        return score_translations(found, references, ["bleu"], lang, tokenizer)[0]

    if sources:
        number = counted(len(sources), "sentence")
        report(f"Translating {number} with original and rounded weights ...")
    before = bleu() if sources else None
    for model in models:
        for variable in model.variables:
            variable.assign(stored_value(variable, FLAGS.weights_dtype))
    if before is None:
        report("No held-out text: the difference in BLEU was not measured.")
        return {"bleu_difference": None}
    after = bleu()
    difference = after.value - before.value
    print(
        f"BLEU {before.value:.2f} with float32, {after.value:.2f} with "
        f"{FLAGS.weights_dtype} weights: {difference:+.2f}  ({after.signature})"
    )
    return {
        "bleu_difference": round(difference, 4),
        "bleu_signature": after.signature,
    }


def _check(path: Path, samples: list[str], translator: "Translator") -> None:
    """Loads the export as TensorFlow Serving does and compares its translations.

    Raises:
        RuntimeError: If they differ from those of `t2t-translate`.
        FloatingPointError: If the model computes non-finite values.
    """
    import numpy as np

    from t2t_keras.decoding.translation_status import BROKEN_MODEL, MODEL_ERROR
    from t2t_keras.export.session_loader import run_signature

    if FLAGS.sample:
        report("--sample: translations were not compared with t2t-translate.")
        return
    text = np.array([sample.encode() for sample in samples], object)
    found = run_signature(path, {"text": text}, ["translation", "status"])
    for sample, (best, *_), answer, status in zip(
        samples,
        translator.translate(samples),
        found["translation"],
        found["status"],
        strict=True,
    ):
        if best.status == MODEL_ERROR:
            raise FloatingPointError(f"{BROKEN_MODEL} It was not exported.")
        if (best.text, best.status) != (answer.decode(), status.decode()):
            raise RuntimeError(
                f"The export translates {sample!r} as {answer.decode()!r} "
                f"({status.decode()}), t2t-translate as {best.text!r}."
            )
    checked = counted(len(samples), "sentence")
    report(f"Checked {checked}: same translations as t2t-translate.")
