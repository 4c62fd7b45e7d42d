"""Scores a model on held-back text, or a file of translations.

t2t-evaluate --model_dir=DIR --split=test
t2t-evaluate --model_dir=DIR --source=FILE --reference=FILE
t2t-evaluate --hypothesis=FILE --reference=FILE
"""

import time
from pathlib import Path

from absl import flags

from t2t_keras.flags import decoding, paths, streams
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

flags.DEFINE_enum("split", "test", ["dev", "test"], "Held-back text of the model.")
flags.DEFINE_string("source", None, "Sentences to translate rather than a split.")
flags.DEFINE_string("reference", None, "Their reference translations.")
flags.DEFINE_string("hypothesis", None, "Translations to score rather than a model.")


def main() -> None:
    """Runs the stage."""
    from t2t_keras.data.lines import read_lines
    from t2t_keras.data.preparation import text_path
    from t2t_keras.evaluation.bleu import score_translations

    if bool(FLAGS.source or FLAGS.hypothesis) != bool(FLAGS.reference):
        raise ValueError("--reference goes with --source or --hypothesis.")
    if FLAGS.hypothesis:
        hypotheses = list(read_lines(FLAGS.hypothesis))
        reference_path = Path(FLAGS.reference)
    elif FLAGS.model_dir:
        source_path = Path(
            FLAGS.source or text_path(FLAGS.model_dir, FLAGS.split, "source")
        )
        reference_path = Path(
            FLAGS.reference or text_path(FLAGS.model_dir, FLAGS.split, "target")
        )
        sources = list(read_lines(source_path))
        references = list(read_lines(reference_path))
        _check_aligned(source_path, len(sources), reference_path, len(references))
        hypotheses = _translate(sources)
        output = FLAGS.output
        if output == "-":
            name = source_path.name if FLAGS.source else f"{FLAGS.split}.txt"
            output = Path(FLAGS.model_dir) / f"hypotheses.{name.removesuffix('.gz')}"
        with stage.open_output(str(output)) as file:
            file.writelines(f"{text}\n".encode() for text in hypotheses)
        stage.report(f"Wrote the translations: {output}")
    else:
        raise ValueError("Either --model_dir or --hypothesis must be given.")
    references = list(read_lines(reference_path))
    _check_aligned(FLAGS.hypothesis, len(hypotheses), reference_path, len(references))
    for score in score_translations(hypotheses, references):
        print(score)


def _check_aligned(
    path: str | Path | None, lines: int, reference: Path, references: int
) -> None:
    if lines != references:
        raise ValueError(
            f"{path} has {lines} lines, but {reference} has {references}: line "
            f"{min(lines, references) + 1} has no counterpart."
        )


def _translate(sources: list[str]) -> list[str]:
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.model_dir import ModelDir

    model_dir = ModelDir(FLAGS.model_dir)
    translator = Translator(
        model_dir.load_model(FLAGS.checkpoint),
        model_dir.tokenizers,
        **decoding.search_arguments(),
    )
    stage.report(
        f"Decoding {len(sources):,} sentences with "
        f"{model_dir.weights_path(FLAGS.checkpoint).name} ..."
    )
    translator.translate(sources[:1])  # Compiles, which is not decoding.
    started = time.perf_counter()
    hypotheses: list[str] = []
    for start in range(0, len(sources), _REPORT_SENTENCES):
        found = translator.translate(sources[start : start + _REPORT_SENTENCES])
        hypotheses += [best[0].text for best in found]
        seconds = time.perf_counter() - started
        stage.report(
            f"{len(hypotheses):,} of {len(sources):,} sentences, "
            f"{len(hypotheses) / seconds:.1f} sentences/s"
        )
    return hypotheses


_REPORT_SENTENCES = 2000


def run() -> None:
    """Is the console script."""
    stage.run(main, __name__, [paths, streams, decoding])


if __name__ == "__main__":
    run()
