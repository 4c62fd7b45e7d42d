"""Warm-up requests: a server runs them before it makes a new version available."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from t2t_keras.errors import UserError

WARMUP_PATH = Path("assets.extra") / "tf_serving_warmup_requests"
"""Path where TensorFlow Serving looks for them, relative to a version's directory."""

_MAX_RECORDS = 1000
"""TensorFlow Serving rejects a version with more."""


def write_warmup(version_dir: Path, requests: Sequence[tuple[str, list[str]]]) -> None:
    """Writes warm-up requests to a version's directory.

    Args:
        version_dir: Directory of the SavedModel.
        requests: For each request, a signature with the input `text` and the sentences.
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
    """Yields the Predict requests of a version, if it has any.

    Raises:
        UserError: If the file is damaged or holds too many requests.
    """
    for log in read_warmup_logs(version_dir):
        if log.HasField("predict_log"):
            yield log.predict_log.request


def read_warmup_logs(
    version_dir: Path,
) -> Iterator[prediction_log_pb2.PredictionLog]:
    """Yields the logged requests to all methods, in the order of the file.

    Raises:
        UserError: If the file is damaged or holds too many requests.
    """
    path = version_dir / WARMUP_PATH
    if not path.is_file():
        return
    try:
        for number, record in enumerate(tf.data.TFRecordDataset(str(path))):
            if number == _MAX_RECORDS:
                raise UserError(f"{path} holds more than {_MAX_RECORDS} requests.")
            yield prediction_log_pb2.PredictionLog.FromString(record.numpy())
    except (tf.errors.OpError, DecodeError) as error:
        raise UserError(f"{path} is damaged: {error}") from error
