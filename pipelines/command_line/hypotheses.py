"""What the stages that translate share: a translator, hypotheses as text and JSON."""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras import runtime
from t2t_keras.flags import decoding, speed
from t2t_keras.pipelines import stage

if TYPE_CHECKING:
    from t2t_keras.decoding.translator import Translation
    from t2t_keras.model_dir import ModelDir, OpenTranslator

FLAGS = flags.FLAGS


def open_by_flags(
    model_dir: "ModelDir",
    n_best: int = 1,
    defaults: Mapping[str, Any] | None = None,
) -> "OpenTranslator":
    """Opens a model directory by the flags of `decoding` and `speed`.

    To be called before TensorFlow's first operation: it shares the cores among the
    batches that are searched at once.

    Args:
        model_dir: Where the models are.
        n_best: Hypotheses of each sentence. Default 1.
        defaults: Search options for which no flag is given. Default those that the
            model was trained with, as far as its directory has them.

    Raises:
        UserError: If the flags contradict each other, or a model cannot be loaded.
    """
    from t2t_keras.decoding.options import SearchOptions

    defaults = model_dir.search if defaults is None else defaults
    options = SearchOptions(**decoding.search_options(defaults), n_best=n_best)
    concurrent_batches = FLAGS.concurrent_batches or min(
        runtime.usable_cores(), speed.MOST_CONCURRENT_BATCHES
    )
    runtime.share_cores(concurrent_batches)
    opened = model_dir.open_translator(
        FLAGS.checkpoint,
        options,
        dtype=FLAGS.decode_precision,
        frozen=runtime.assumes_frozen_weights(),
        batch_tokens=FLAGS.decode_batch_tokens,
        concurrent_batches=concurrent_batches,
    )
    if options.min_length > options.max_extra_length + 1:
        stage.report(
            f"--min_length={options.min_length} goes before --max_extra_length="
            f"{options.max_extra_length}: outputs of short lines may be longer than "
            "that allows."
        )
    return opened


def describe_run(opened: "OpenTranslator") -> dict[str, Any]:
    """Describes for records what was decoded with: weights, steps, search options."""
    return {
        "weights": [each.weights for each in opened.loaded],
        "steps": [each.step for each in opened.loaded],
        **dataclasses.asdict(opened.translator.options),
    }


def as_text(found: Iterable[Sequence["Translation"]], number: int) -> Iterator[str]:
    """Formats a line for each hypothesis, by the flags `n_best` and `print_scores`.

    The column of a score that was not computed is empty.

    Args:
        found: The hypotheses of each sentence.
        number: Of the first sentence's line.
    """
    for place, hypotheses in enumerate(found, number):
        for text, score, _ in hypotheses:
            column = "" if score is None else f"{score:.4f}"
            if FLAGS.n_best > 1:
                yield f"{place}\t{column}\t{text}"
            else:
                yield f"{column}\t{text}" if FLAGS.print_scores else text


def as_json(
    sources: Sequence[str],
    found: Sequence[Sequence["Translation"]],
    details: Iterable[Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """Formats a JSON object for each sentence.

    A score that was not computed is null.

    Args:
        sources: The sentences.
        found: The hypotheses of each.
        details: What else to say of each hypothesis of each sentence, one after the
            other. Default nothing.
    """
    from t2t_keras.data.lines import readable

    more = iter(details or ())
    for source, hypotheses in zip(sources, found, strict=True):
        shown = [
            {
                "text": text,
                "score": None if score is None else round(score, 6),
                **next(more, {}),
            }
            for text, score, _ in hypotheses
        ]
        entry = {
            "source": readable(source),
            "status": hypotheses[0].status,
            "hypotheses": shown,
        }
        text = json.dumps(entry, ensure_ascii=False)
        # To some readers these end a line, and an object is to be one line.
        yield re.sub(
            "[\x85\u2028\u2029]", lambda found: f"\\u{ord(found[0]):04x}", text
        )
