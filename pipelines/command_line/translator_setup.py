"""Opens models for decoding with the options that the command line sets."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras import runtime
from t2t_keras.flags import decoding, speed
from t2t_keras.pipelines import stage

if TYPE_CHECKING:
    from t2t_keras.model_dir import ModelDir, OpenTranslator

FLAGS = flags.FLAGS


def open_with_flags(
    model_dir: "ModelDir",
    n_best: int = 1,
    defaults: Mapping[str, Any] | None = None,
) -> "OpenTranslator":
    """Opens a model directory with the flags of `decoding` and `speed`.

    Must be called before TensorFlow's first operation: it divides the CPU cores among
    the concurrent batches.

    Args:
        model_dir: Model directory.
        n_best: Number of hypotheses per sentence. Default: 1.
        defaults: Search options for flags that are not given. Default: those stored in
            the model directory, if any.

    Raises:
        UserError: If the flags contradict each other, or a model cannot be loaded.
    """
    from t2t_keras.decoding.options import SearchOptions

    defaults = model_dir.search if defaults is None else defaults
    options = SearchOptions(**decoding.search_options(defaults), n_best=n_best)
    concurrent_batches = FLAGS.concurrent_batches or min(
        runtime.usable_cores(), speed.MAX_CONCURRENT_BATCHES
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
            f"--min_length={options.min_length} takes precedence over "
            f"--max_extra_length={options.max_extra_length}: outputs for short lines "
            "may exceed the latter."
        )
    return opened


def describe_run(opened: "OpenTranslator") -> dict[str, Any]:
    """Returns weights, their steps and the search options, for records of scores."""
    return {
        "weights": [each.weights for each in opened.loaded],
        "steps": [each.step for each in opened.loaded],
        **dataclasses.asdict(opened.translator.options),
    }
