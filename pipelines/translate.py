"""Translates sentences, a line out for each line in, in order.

t2t-translate --model_dir=DIR --input=FILE --output=FILE
echo "Hello." | t2t-translate --model_dir=DIR
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras.flags import decoding, paths, speed, streams
from t2t_keras.flags import hypotheses as hypotheses_flags
from t2t_keras.pipelines import hypotheses, input_output, stage

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translation, Translator

FLAGS = flags.FLAGS

flags.DEFINE_bool(
    "with_prefix", False, "Lines are a source, a tab, and what its output begins with."
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.decoding.translator import windows
    from t2t_keras.model_dir import ModelDir

    input_output.check_output(FLAGS.output)
    is_awaited = input_output.is_awaited(FLAGS.input)
    if is_awaited:
        stage.answer_soon()
    model_dir = ModelDir(FLAGS.model_dir)
    translator, _ = hypotheses.open_translator(model_dir, FLAGS.n_best)
    lines = input_output.input_lines(FLAGS.input)
    number = 0
    with input_output.open_output(FLAGS.output) as output:
        for window in windows(lines, _WINDOW, wait=not is_awaited):
            sources, prefixes = _split(window) if FLAGS.with_prefix else (window, None)
            found = translator.translate(sources, prefixes)
            if FLAGS.output_format == "json":
                details = _details(translator, sources, found)
                texts = hypotheses.as_json(sources, found, details)
            else:
                texts = hypotheses.as_text(found, number + 1)
            output.writelines(f"{text}\n".encode() for text in texts)
            output.flush()
            number += len(window)
    if translator.truncated:
        stage.report(
            f"{translator.truncated:,} lines were longer than "
            f"{translator.max_input_tokens:,} tokens and were translated up to there."
        )


_WINDOW = 2048


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """Divides lines at their first tab."""
    pairs = [line.partition("\t") for line in lines]
    return [source for source, _, _ in pairs], [prefix for _, _, prefix in pairs]


def _details(
    translator: "Translator", sources: list[str], found: "list[list[Translation]]"
) -> Iterator[dict[str, Any]]:
    # All hypotheses of a window are looked at together.
    pairs = [
        (source, hypothesis.text)
        for source, row in zip(sources, found, strict=True)
        for hypothesis in row
    ]
    for details in translator.details([s for s, _ in pairs], [t for _, t in pairs]):
        yield details._asdict()


def run() -> None:
    """Is the console script."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        streams,
        hypotheses_flags,
        decoding,
        speed,
    ]
    stage.run(main, __name__, shared, required=["model_dir"])


if __name__ == "__main__":
    run()
