"""SavedModels of arithmetic that tests can block, for tests of serving."""

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from t2t_keras.export.warmup import WARMUP_PATH


class Arithmetic(tf.Module):
    """A model of arithmetic that a test can block."""

    def __init__(self, factor):
        super().__init__()
        self.factor = tf.Variable(float(factor))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def scale(self, x):
        return {"y": x * self.factor, "z": x}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def mean(self, x):
        return {"mean": tf.reduce_mean(x)}

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="path")])
    def wait(self, path):
        """Runs until a file exists."""
        tries = tf.constant(0)
        while tf.size(tf.io.matching_files(path)) == 0:
            tries += 1
        return {"tries": tries}

    @tf.function(
        input_signature=[
            tf.TensorSpec([], tf.string, name="started"),
            tf.TensorSpec([], tf.string, name="path"),
        ]
    )
    def announce(self, started, path):
        """Writes to a pipe, then waits for a file; closing the session stops it."""
        tf.io.write_file(started, "started")
        return self.wait(path)

    @tf.function(
        input_signature=[
            tf.TensorSpec([], tf.string, name="started"),
            tf.TensorSpec([], tf.string, name="path"),
        ]
    )
    def block(self, started, path):
        """Writes to a pipe, then reads from another one; cannot be interrupted."""
        with tf.control_dependencies([tf.io.write_file(started, "started")]):
            return {"content": tf.io.read_file(path)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.int32, name="a"),
            tf.TensorSpec([], tf.int32, name="b"),
        ]
    )
    def add(self, a, b):
        return {"sum": a + b}


def write_arithmetic(path, factor, warm_up=None):
    """Writes a version.

    Args:
        path: Directory of the version.
        factor: Factor of `serving_default`.
        warm_up: Signature and inputs to run when the version is loaded.
    """
    module = Arithmetic(factor)
    signatures = {
        "serving_default": module.scale,
        **{n: getattr(module, n) for n in ("mean", "wait", "announce", "block", "add")},
    }
    # Written under another name, so that a server does not see it half-written.
    hidden = path.with_name(f".{path.name}")
    tf.saved_model.save(module, str(hidden), signatures=signatures)
    if warm_up:
        write_record(hidden, *warm_up)
    hidden.rename(path)


def write_record(version_dir, signature, inputs):
    """Writes a warm-up request for a signature."""
    request = predict_pb2.PredictRequest()
    request.model_spec.signature_name = signature
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    log = prediction_log_pb2.PredictLog(request=request)
    record = prediction_log_pb2.PredictionLog(predict_log=log)
    path = version_dir / WARMUP_PATH
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(record.SerializeToString())
