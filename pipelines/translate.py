"""Translates sentences, a line out for each line in, in order.

t2t-translate --model_dir=DIR --input=FILE --output=FILE
echo "Hello." | t2t-translate --model_dir=DIR
"""

from absl import flags

from t2t_keras import runtime
from t2t_keras.flags import decoding, paths, speed, text_files
from t2t_keras.flags import hypotheses as hypotheses_flags
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import hypotheses, input_output
from t2t_keras.pipelines.command_line.outcomes import Outcomes

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
    from t2t_keras.decoding.windows import windows
    from t2t_keras.model_dir import ModelDir

    input_output.check_output(FLAGS.output)
    is_awaited = input_output.is_awaited(FLAGS.input)
    if is_awaited:
        runtime.skip_graph_optimization()
    model_dir = ModelDir(FLAGS.model_dir)
    translator = hypotheses.open_by_flags(model_dir, FLAGS.n_best).translator
    outcomes = Outcomes(
        input_output.name_of(FLAGS.input),
        "translated",
        f"{translator.max_input_tokens:,} tokens",
    )
    lines = input_output.input_lines(FLAGS.input)
    number = 0
    with input_output.open_output(FLAGS.output) as output:
        for window in windows(lines, _WINDOW, wait=not is_awaited):
            sources, prefixes = _split(window) if FLAGS.with_prefix else (window, None)
            if FLAGS.output_format == "json":
                in_detail = translator.translate_in_detail(sources, prefixes)
                found = [[one for one, _ in row] for row in in_detail]
                details = (one._asdict() for row in in_detail for _, one in row)
                texts = hypotheses.as_json(sources, found, details)
            else:
                found = translator.translate(sources, prefixes)
                texts = hypotheses.as_text(found, number + 1)
            output.writelines(f"{text}\n".encode() for text in texts)
            output.flush()
            number += len(window)
            outcomes.add(best.status for best, *_ in found)
    return outcomes.tell()


_WINDOW = 2048


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """Divides lines at their first tab."""
    pairs = [line.partition("\t") for line in lines]
    return [source for source, _, _ in pairs], [prefix for _, _, prefix in pairs]


def run() -> None:
    """Is the console script."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        text_files,
        hypotheses_flags,
        decoding,
        speed,
    ]
    stage.run(main, __name__, shared, required=["model_dir"], process="decoding")


if __name__ == "__main__":
    run()
