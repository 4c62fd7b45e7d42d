"""The warm-up requests of a version, as inputs of its signatures."""

from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from t2t_keras.export.warmup import read_warmup_logs
from t2t_keras.server.example_list import EXAMPLES_INPUT, read_examples
from t2t_keras.server.saved_model import Arrays


def warmup_inputs(version_dir: Path) -> Iterator[tuple[str, Arrays]]:
    """Yields the inputs of the warm-up requests to all methods.

    Yields:
        A signature's name, empty for the default, and its inputs.

    Raises:
        UserError: If the file is damaged or holds too many requests.
    """
    for log in read_warmup_logs(version_dir):
        kind = log.WhichOneof("log_type")
        if kind == "predict_log":
            inputs = log.predict_log.request.inputs
            arrays = {name: tf.make_ndarray(tensor) for name, tensor in inputs.items()}
            yield log.predict_log.request.model_spec.signature_name, arrays
        elif kind in ("classify_log", "regress_log"):
            request = getattr(log, kind).request
            examples = {EXAMPLES_INPUT: read_examples(request.input)}
            yield request.model_spec.signature_name, examples
        elif kind == "multi_inference_log":
            request = log.multi_inference_log.request
            examples = {EXAMPLES_INPUT: read_examples(request.input)}
            for task in request.tasks:
                yield task.model_spec.signature_name, examples
