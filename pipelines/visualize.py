"""Draws a model's attention weights for a sentence, and a page to explore them.

t2t-visualize --model_dir=DIR --source_text="A sentence." --output_dir=DIR

Writes explorer.html, a self-contained web page. For each kind of attention and each
layer, also writes two plots as SVG and PNG: lines between the tokens, and heat maps of
all heads.
"""

from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import decoding, paths
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

flags.DEFINE_string("source_text", None, "Source sentence to visualize.")
flags.DEFINE_string(
    "target_text",
    None,
    "Target sentence. Default: the model's own translation, found by beam search.",
)
flags.DEFINE_bool("pictures", True, "Also draw SVG and PNG files, not only the page.")


def main() -> None:
    """Runs the stage."""
    from tqdm import tqdm

    from t2t_keras.analysis.attention_maps import MAX_TOKENS, attention_maps
    from t2t_keras.analysis.attention_plot import draw_heat_maps, draw_lines
    from t2t_keras.analysis.model_explorer import explorer_page
    from t2t_keras.data.text_lines import is_text
    from t2t_keras.decoding.options import SearchOptions
    from t2t_keras.decoding.translation_status import BROKEN_MODEL, MODEL_ERROR
    from t2t_keras.files import directory_at, make_directory, write_atomically
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.optional_packages import require_extra

    if len(FLAGS.checkpoint) > 1:
        raise UserError(
            "t2t-visualize takes a single checkpoint. Received: --checkpoint="
            f"{','.join(FLAGS.checkpoint)}"
        )
    for name in ("source_text", "target_text"):
        if not is_text(FLAGS[name].value or ""):
            raise UserError(f"--{name} is not valid UTF-8.")
    if FLAGS.pictures:
        require_extra("visualize", "Drawing pictures (--pictures)")
    directory = directory_at(FLAGS.output_dir)
    model_dir = ModelDir(FLAGS.model_dir)
    options = decoding.search_options(model_dir.search)
    # The plots have room for this many tokens.
    limit = min(options["max_output_tokens"] or MAX_TOKENS, MAX_TOKENS)
    options["max_output_tokens"] = limit
    translator, loaded = model_dir.open_translator(
        FLAGS.checkpoint, SearchOptions(**options)
    )
    model, weights, _ = loaded[0]
    target = FLAGS.target_text
    if target is None:
        target, _, status = translator.translate([FLAGS.source_text])[0][0]
        if status == MODEL_ERROR:
            raise FloatingPointError(BROKEN_MODEL)
        if not target:
            raise UserError(
                "The model's translation is empty. Give another with --target_text."
            )
        stage.report(f"Translation: {target}")
    maps = attention_maps(model, model_dir.tokenizers, FLAGS.source_text, target)
    make_directory(directory)
    name = f"{Path(FLAGS.model_dir).resolve().name}, {weights}"
    page = explorer_page(model, maps, FLAGS.source_text, target, name)
    write_atomically(directory / "explorer.html", page.encode())
    stage.report(f"Wrote the page: {directory / 'explorer.html'}")
    if not FLAGS.pictures:
        return
    for attention in tqdm(maps, desc="pictures", unit="layer", dynamic_ncols=True):
        where = f"{attention.kind}.layer_{attention.layer + 1}"
        for drawn, draw in (("lines", draw_lines), ("heat_maps", draw_heat_maps)):
            draw(
                attention, [directory / f"{where}.{drawn}.{e}" for e in ("svg", "png")]
            )
    stage.report(f"Wrote {4 * len(maps)} plots: {directory}")


def run() -> None:
    """Console entry point."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        paths.OUTPUT_DIR,
        decoding,
    ]
    required = ["model_dir", "source_text", "output_dir"]
    stage.run(main, __name__, shared, required)


if __name__ == "__main__":
    run()
