"""Translates sentences, a line out for each line in, in order.

t2t-translate --model_dir=DIR --input=FILE --output=FILE
echo "Hello." | t2t-translate --model_dir=DIR
"""

import sys
from collections.abc import Iterator

from absl import flags

from t2t_keras.flags import decoding, paths, streams
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

flags.DEFINE_integer(
    "n_best",
    1,
    "Translations of each line. With more than one, each is a line of its own: the "
    "input line's number, the score and the text, divided by tabs.",
    1,
)
flags.DEFINE_bool("print_scores", False, "Put the score and a tab before each line.")


def main() -> None:
    """Runs the stage."""
    from t2t_keras.data.lines import decode_line, read_lines
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(FLAGS.model_dir)
    translator = Translator(
        model_dir.load_model(FLAGS.checkpoint),
        model_dir.tokenizers,
        n_best=FLAGS.n_best,
        **decoding.search_arguments(),
    )

    def sentences() -> Iterator[str]:
        if FLAGS.input != "-":
            yield from read_lines(FLAGS.input)
            return
        for number, line in enumerate(sys.stdin.buffer, 1):
            yield decode_line(line, "standard input", number)

    found_in_order = translator.stream(sentences(), wait=FLAGS.input != "-")
    with stage.open_output(FLAGS.output) as output:
        for number, found in enumerate(found_in_order, 1):
            for text, score in found:
                if FLAGS.n_best > 1:
                    line = f"{number}\t{score:.4f}\t{text}\n"
                else:
                    line = (
                        f"{score:.4f}\t{text}\n" if FLAGS.print_scores else f"{text}\n"
                    )
                output.write(line.encode("utf-8"))
            output.flush()
    if translator.truncated:
        stage.report(
            f"{translator.truncated:,} lines were longer than "
            f"{translator.max_input_tokens:,} tokens and were translated up to there."
        )


def run() -> None:
    """Is the console script."""
    shared: list[stage.SharedFlags] = [paths.MODEL_DIR, streams, decoding]
    stage.run(main, __name__, shared, required=["model_dir"])


if __name__ == "__main__":
    run()
