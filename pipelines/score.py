"""Tells how likely given translations are under a model.

t2t-score --model_dir=DIR --translations=FILE --input=FILE

Writes a line for each pair: the log-probability of the translation, and after a tab
that of each of its tokens, the end's last.
"""

from absl import flags

from t2t_keras.flags import decoding, paths, streams
from t2t_keras.pipelines import input_output, stage

FLAGS = flags.FLAGS

flags.DEFINE_string("translations", None, "Translations of --input, line by line.")

_PAIRS = 2048


def main() -> None:
    """Runs the stage."""
    from t2t_keras.data.corpora import TextCorpus
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.training.metrics import perplexity_of

    if FLAGS.input == "-":
        raise ValueError("--input must be a file. Received: -")
    input_output.check_output(FLAGS.output)
    model_dir = ModelDir(FLAGS.model_dir)
    translator = Translator(
        [model_dir.load_model(checkpoint) for checkpoint in FLAGS.checkpoint],
        model_dir.tokenizers,
        batch_tokens=FLAGS.decode_batch_tokens,
    )
    # Which reads pairs, and names the line where one file is longer.
    corpus = TextCorpus(
        "", "", {"train": [FLAGS.input]}, {"train": [FLAGS.translations]}
    )
    pairs = list(corpus.read("train"))
    total, tokens = 0.0, 0
    with input_output.open_output(FLAGS.output) as output:
        for start in range(0, len(pairs), _PAIRS):
            part = pairs[start : start + _PAIRS]
            for _, scores, _ in translator.details(
                [source for source, _ in part], [target for _, target in part]
            ):
                total += sum(scores)
                tokens += len(scores)
                each = " ".join(f"{score:.4f}" for score in scores)
                output.write(f"{sum(scores):.4f}\t{each}\n".encode())
    stage.report(
        stage.describe(
            pairs=len(pairs),
            tokens=tokens,
            log_probability=f"{total:.2f}",
            perplexity=f"{perplexity_of(-total / max(tokens, 1)):.3f}",
        )
    )


def run() -> None:
    """Is the console script."""
    shared: list[stage.SharedFlags] = [
        paths.MODEL_DIR,
        streams,
        decoding.CHECKPOINT,
        decoding.DECODE_BATCH_TOKENS,
    ]
    stage.run(main, __name__, shared, required=["model_dir", "translations"])


if __name__ == "__main__":
    run()
