"""Tells how likely given translations are under a model.

t2t-score --model_dir=DIR --translations=FILE --input=FILE

Writes a line for each pair: the log-probability of the translation, and after a tab
that of each of its tokens, the end's last. A pair that was not scored as it stands has
a third column, its status: too_long (either side is cut after 1,024 tokens; what was
cut has no end to score); or, with the other columns empty since nothing was computed,
empty (neither side has words), invalid_utf8 or model_error.
"""

from typing import Any

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import decoding, paths, text_files
from t2t_keras.messages import describe
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import input_output
from t2t_keras.pipelines.command_line.outcomes import Outcomes, tell_invalid_lines

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "translations",
    None,
    "File of translations to score, aligned with --input line by line.",
)

_PAIRS = 2048


def main() -> int:
    """Runs the stage.

    Returns:
        The exit status.
    """
    from t2t_keras.data.lines import align_lines, read_lines
    from t2t_keras.decoding.status import INVALID, OK
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.training.metrics import perplexity_of

    if FLAGS.input == "-":
        raise UserError("--input must be a file. Received: -")
    input_output.check_output(FLAGS.output)
    model_dir = ModelDir(FLAGS.model_dir)
    translator = model_dir.translator(
        FLAGS.checkpoint, batch_tokens=FLAGS.decode_batch_tokens
    )
    paths = (FLAGS.input, FLAGS.translations)
    lines = (read_lines(path, strict=False) for path in paths)
    pairs = list(align_lines(next(lines), next(lines), *paths))
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    longest = f"{translator.max_input_tokens:,} tokens"
    outcomes = Outcomes(FLAGS.input, "scored", longest)
    total, tokens = 0.0, 0
    with input_output.open_output(FLAGS.output) as output:
        for start in range(0, len(pairs), _PAIRS):
            part = slice(start, start + _PAIRS)
            found = translator.score(sources[part], targets[part])
            outcomes.add(status for _, status in found)
            for (_, scores, _), status in found:
                total += sum(scores)
                tokens += len(scores)
                columns = [
                    f"{sum(scores):.4f}" if scores else "",
                    " ".join(f"{score:.4f}" for score in scores),
                ]
                if status != OK:
                    columns.append(status)
                output.write(("\t".join(columns) + "\n").encode())
    figures: dict[str, Any] = {"pairs": len(pairs), "tokens": tokens}
    if tokens:
        figures["log_probability"] = f"{total:.2f}"
        figures["perplexity"] = f"{perplexity_of(-total / tokens):.3f}"
    stage.report(describe(**figures))
    for path, side in zip(paths, (sources, targets), strict=True):
        tell_invalid_lines(path, side, "not scored")
    return outcomes.tell(told={INVALID})


def run() -> None:
    """Is the console script."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        text_files,
        decoding.CHECKPOINT,
        decoding.DECODE_BATCH_TOKENS,
    ]
    stage.run(main, __name__, shared, required=["model_dir", "translations"])


if __name__ == "__main__":
    run()
