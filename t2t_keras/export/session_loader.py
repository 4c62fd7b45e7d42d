"""Runs a version as TensorFlow Serving does, to verify it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers the tokenizers' operations.


def run_signature(
    version_dir: str | Path,
    inputs: Mapping[str, np.ndarray],
    outputs: Iterable[str],
    signature: str = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY,
) -> dict[str, np.ndarray]:
    """Loads a version with the session loader and runs a signature once.

    Args:
        version_dir: Directory of the SavedModel.
        inputs: Array by name of each input of the signature.
        outputs: Names of the outputs to return.
        signature: Name of the signature. Default "serving_default".

    Returns:
        Array by name of each output.
    """
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.loader.load(
            session, [tf.saved_model.SERVING], str(version_dir)
        )
        tensors = loaded.signature_def[signature]
        return session.run(
            {name: tensors.outputs[name].name for name in outputs},
            {tensors.inputs[name].name: array for name, array in inputs.items()},
        )
