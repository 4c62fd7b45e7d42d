"""What the stages that translate share: cores, models, hypotheses as text and JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras.flags.speed import concurrency

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translation
    from t2t_keras.model_dir import ModelDir
    from t2t_keras.transformer import Transformer

FLAGS = flags.FLAGS


def share_cores() -> int:
    """Shares the cores among the batches that are searched at once.

    To be called before TensorFlow's first operation.

    Returns:
        How many batches.
    """
    import tensorflow as tf

    batches, threads = concurrency()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    return batches


def load_models(model_dir: "ModelDir") -> "list[Transformer]":
    """Loads what `checkpoint` names, to compute in `decode_precision`."""
    return [
        model_dir.load_model(checkpoint, dtype=FLAGS.decode_precision)
        for checkpoint in FLAGS.checkpoint
    ]


def as_text(found: Iterable[Sequence["Translation"]], number: int) -> Iterator[str]:
    """Formats a line for each hypothesis, by the flags `n_best` and `print_scores`.

    Args:
        found: The hypotheses of each sentence.
        number: Of the first sentence's line.
    """
    for place, hypotheses in enumerate(found, number):
        for text, score, _ in hypotheses:
            if FLAGS.n_best > 1:
                yield f"{place}\t{score:.4f}\t{text}"
            else:
                yield f"{score:.4f}\t{text}" if FLAGS.print_scores else text


def as_json(
    sources: Sequence[str],
    found: Sequence[Sequence["Translation"]],
    details: Iterable[Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """Formats a JSON object for each sentence.

    Args:
        sources: The sentences.
        found: The hypotheses of each.
        details: What else to say of each hypothesis of each sentence, one after the
            other. Default nothing.
    """
    more = iter(details or ())
    for source, hypotheses in zip(sources, found, strict=True):
        shown = [
            {"text": text, "score": round(score, 6), **next(more, {})}
            for text, score, _ in hypotheses
        ]
        entry = {"source": source, "status": hypotheses[0].status, "hypotheses": shown}
        yield json.dumps(entry, ensure_ascii=False)
