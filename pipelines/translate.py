"""Translates sentences: one output line per input line, in order.

t2t-translate --model_dir=DIR --input=FILE --output=FILE
echo "Hello." | t2t-translate --model_dir=DIR
"""

from absl import flags

from t2t_keras import runtime
from t2t_keras.flags import decoding, paths, speed, text_files, translation_output
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
from t2t_keras.pipelines.command_line.hypothesis_lines import json_lines, text_lines
from t2t_keras.pipelines.command_line.outcomes import Outcomes
from t2t_keras.pipelines.command_line.translator_setup import open_with_flags

FLAGS = flags.FLAGS

flags.DEFINE_bool(
    "with_prefix",
    False,
    "Input lines are a source sentence, a tab, and a forced prefix of the output.",
)


def main() -> int:
    """Runs the stage.

    Returns:
        The exit status.
    """
    from t2t_keras.decoding.input_windows import windows
    from t2t_keras.model_dir import ModelDir

    standard_streams.check_output(FLAGS.output)
    is_interactive = standard_streams.is_interactive(FLAGS.input)
    if is_interactive:
        runtime.skip_graph_optimization()
    model_dir = ModelDir(FLAGS.model_dir)
    translator = open_with_flags(model_dir, FLAGS.n_best).translator
    outcomes = Outcomes(
        standard_streams.input_name(FLAGS.input),
        "translated",
        f"{translator.max_input_tokens:,} tokens",
    )
    lines = standard_streams.input_lines(FLAGS.input)
    number = 0
    with standard_streams.open_output(FLAGS.output) as output:
        for window in windows(lines, _WINDOW, wait=not is_interactive):
            sources, prefixes = _split(window) if FLAGS.with_prefix else (window, None)
            if FLAGS.output_format == "json":
                in_detail = translator.translate_in_detail(sources, prefixes)
                found = [[one for one, _ in row] for row in in_detail]
                details = (one._asdict() for row in in_detail for _, one in row)
                texts = json_lines(sources, found, details)
            else:
                found = translator.translate(sources, prefixes)
                texts = text_lines(found, number + 1)
            output.writelines(f"{text}\n".encode() for text in texts)
            output.flush()
            number += len(window)
            outcomes.add(best.status for best, *_ in found)
    return outcomes.report()


_WINDOW = 2048


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """Splits each line at the first tab into source and prefix."""
    pairs = [line.partition("\t") for line in lines]
    return [source for source, _, _ in pairs], [prefix for _, _, prefix in pairs]


def run() -> None:
    """Console entry point."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        text_files,
        translation_output,
        decoding,
        speed,
    ]
    stage.run(main, __name__, shared, required=["model_dir"], process="decoding")


if __name__ == "__main__":
    run()
