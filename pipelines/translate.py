"""Translates sentences, a line out for each line in, in order.

t2t-translate --model_dir=DIR --input=FILE --output=FILE
echo "Hello." | t2t-translate --model_dir=DIR
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

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
flags.DEFINE_enum(
    "output_format",
    "text",
    ["text", "json"],
    "json: an object a line, with the hypotheses, their scores, tokens and their "
    "scores, the alignment of words, and the status of the input: ok, empty, too_long.",
)
flags.DEFINE_bool(
    "with_prefix", False, "Lines are a source, a tab, and what its output begins with."
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.data.lines import decode_line, read_lines
    from t2t_keras.decoding.options import SearchOptions
    from t2t_keras.decoding.translator import Translator, windows
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(FLAGS.model_dir)
    options = SearchOptions(**decoding.search_options(), n_best=FLAGS.n_best)
    translator = Translator(
        [model_dir.load_model(checkpoint) for checkpoint in FLAGS.checkpoint],
        model_dir.tokenizers,
        options,
        FLAGS.decode_batch_tokens,
    )

    def lines() -> Iterator[str]:
        if FLAGS.input != "-":
            yield from read_lines(FLAGS.input)
            return
        for number, line in enumerate(sys.stdin.buffer, 1):
            yield decode_line(line, "standard input", number)

    number = 0
    with stage.open_output(FLAGS.output) as output:
        for window in windows(lines(), _WINDOW, wait=FLAGS.input != "-"):
            sources, prefixes = _split(window) if FLAGS.with_prefix else (window, None)
            found = translator.translate(sources, prefixes)
            if FLAGS.output_format == "json":
                texts = _json(translator, sources, found)
            else:
                texts = _text(found, number)
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


def _text(found: list[list[Any]], number: int) -> Iterator[str]:
    for place, hypotheses in enumerate(found, number + 1):
        for text, score, _ in hypotheses:
            if FLAGS.n_best > 1:
                yield f"{place}\t{score:.4f}\t{text}"
            else:
                yield f"{score:.4f}\t{text}" if FLAGS.print_scores else text


def _json(translator: Any, sources: list[str], found: list[list[Any]]) -> Iterator[str]:
    # All hypotheses of a window are looked at together.
    pairs = [
        (source, hypothesis.text)
        for source, hypotheses in zip(sources, found, strict=True)
        for hypothesis in hypotheses
    ]
    details = iter(translator.details([s for s, _ in pairs], [t for _, t in pairs]))
    for source, hypotheses in zip(sources, found, strict=True):
        shown = [
            {"text": text, "score": round(score, 6), **next(details)._asdict()}
            for text, score, _ in hypotheses
        ]
        entry = {"source": source, "status": hypotheses[0].status, "hypotheses": shown}
        yield json.dumps(entry, ensure_ascii=False)


def run() -> None:
    """Is the console script."""
    shared: list[stage.SharedFlags] = [paths.MODEL_DIR, streams, decoding]
    stage.run(main, __name__, shared, required=["model_dir"])


if __name__ == "__main__":
    run()
