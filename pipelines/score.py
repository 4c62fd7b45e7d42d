"""Scores given translations by their log-probability under a model.

t2t-score --model_dir=DIR --translations=FILE --input=FILE

Writes one line per pair with tab-separated columns: the log-probability of the
translation, and the log-probability of each of its tokens, end token last. A third
column with a status is added to pairs that were not scored as given: too_long (a side
was cut at 1,024 tokens; a cut translation has no score for the end token), empty
(neither side has words), invalid_utf8 or model_error. The other columns are empty if
nothing was computed. With --contrastive, the columns are differences.
"""

from typing import Any

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import decoding, paths, text_files
from t2t_keras.messages import describe
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
from t2t_keras.pipelines.command_line.outcomes import Outcomes, report_invalid_lines

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "translations",
    None,
    "File of translations to score, aligned with --input line by line.",
)

flags.DEFINE_bool(
    "contrastive",
    False,
    "Subtract the log-probabilities given another source sentence of the input. The "
    "difference is small for translations of other sentences, however probable they "
    "are, and serves as a score for t2t-prepare --train_scores.",
)

_PAIRS = 2048


def main() -> int:
    """Runs the stage.

    Returns:
        The exit status.
    """
    from t2t_keras.data.text_lines import align_lines, read_lines
    from t2t_keras.decoding.contrastive_scores import other_sources, score_difference
    from t2t_keras.decoding.translation_status import INVALID, OK
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.training.metrics import perplexity_of

    if FLAGS.input == "-":
        raise UserError("--input must be a file. Received: -")
    standard_streams.check_output(FLAGS.output)
    model_dir = ModelDir(FLAGS.model_dir)
    translator = model_dir.translator(
        FLAGS.checkpoint, batch_tokens=FLAGS.decode_batch_tokens
    )
    paths = (FLAGS.input, FLAGS.translations)
    lines = (read_lines(path, strict=False) for path in paths)
    pairs = list(align_lines(next(lines), next(lines), *paths))
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    others = []
    if FLAGS.contrastive:
        others = other_sources(sources)
        if not others:
            raise UserError(
                "--contrastive needs two different source sentences. There are fewer "
                f"in {FLAGS.input}."
            )
    max_length = f"{translator.max_input_tokens:,} tokens"
    outcomes = Outcomes(FLAGS.input, "scored", max_length)
    total, tokens = 0.0, 0
    with standard_streams.open_output(FLAGS.output) as output:
        for start in range(0, len(pairs), _PAIRS):
            part = slice(start, start + _PAIRS)
            found = translator.score(sources[part], targets[part])
            if others:
                given_others = translator.score(others[part], targets[part])
                found = [*map(score_difference, found, given_others)]
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
    if tokens and others:
        figures["difference_per_token"] = f"{total / tokens:.3f}"
    elif tokens:
        figures["log_probability"] = f"{total:.2f}"
        figures["perplexity"] = f"{perplexity_of(-total / tokens):.3f}"
    stage.report(describe(**figures))
    for path, side in zip(paths, (sources, targets), strict=True):
        report_invalid_lines(path, side, "not scored")
    return outcomes.report({INVALID})


def run() -> None:
    """Console entry point."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        text_files,
        decoding.CHECKPOINT,
        decoding.DECODE_BATCH_TOKENS,
    ]
    stage.run(main, __name__, shared, required=["model_dir", "translations"])


if __name__ == "__main__":
    run()
