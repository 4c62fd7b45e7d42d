"""Requests that a server answers by itself before a new version is used."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from t2t_keras.serving.example_list import EXAMPLES_INPUT, read_examples
from t2t_keras.serving.saved_model import Arrays

WARMUP_PATH = Path("assets.extra") / "tf_serving_warmup_requests"
"""Where TensorFlow Serving looks for them, inside a version's directory."""

_MOST_RECORDS = 1000
"""TensorFlow Serving refuses a version with more."""


def write_warmup(version_dir: Path, requests: Sequence[tuple[str, list[str]]]) -> None:
    """Writes requests into a version's directory.

    Args:
        version_dir: Directory of the SavedModel.
        requests: A signature that takes `text`, and the sentences, for each.
    """
    path = version_dir / WARMUP_PATH
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, sentences in requests:
            request = predict_pb2.PredictRequest()
            request.model_spec.name = version_dir.parent.name
            request.model_spec.signature_name = signature
            request.inputs["text"].CopyFrom(tf.make_tensor_proto(sentences, tf.string))
            log = prediction_log_pb2.PredictLog(request=request)
            record = prediction_log_pb2.PredictionLog(predict_log=log)
            writer.write(record.SerializeToString())


def read_warmup(version_dir: Path) -> Iterator[predict_pb2.PredictRequest]:
    """Yields the requests to Predict of a version, of which there may be none.

    Raises:
        ValueError: If the file is damaged, or holds too many.
    """
    for log in _read(version_dir):
        if log.HasField("predict_log"):
            yield log.predict_log.request


def warmup_inputs(version_dir: Path) -> Iterator[tuple[str, Arrays]]:
    """Yields what to run before a version is used: the requests of all methods.

    Yields:
        A signature's name, empty for the default, and its inputs.

    Raises:
        ValueError: If the file is damaged, or holds too many.
    """
    for log in _read(version_dir):
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


def _read(version_dir: Path) -> Iterator[prediction_log_pb2.PredictionLog]:
    path = version_dir / WARMUP_PATH
    if not path.is_file():
        return
    try:
        for number, record in enumerate(tf.data.TFRecordDataset(str(path))):
            if number == _MOST_RECORDS:
                raise ValueError(f"{path} holds more than {_MOST_RECORDS} requests.")
            yield prediction_log_pb2.PredictionLog.FromString(record.numpy())
    except (tf.errors.OpError, DecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
