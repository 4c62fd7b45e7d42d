"""A SavedModel as TensorFlow Serving runs it: through the session loader."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  An export's operations are registered by it.
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

from t2t_keras.counted import counted
from t2t_keras.server.serving_errors import ServingError, invalid, shown

DEFAULT_SIGNATURE = "serving_default"

_OF_LOADERS = "__saved_model_"
"""The beginning of signatures that loading runs, and nobody else."""

Arrays = dict[str, np.ndarray]

MOST_AXES = 64
"""Of an array in NumPy; TensorFlow allows 254."""


def new_session() -> tf.compat.v1.Session:
    """Returns a session to load a SavedModel into; closing it interrupts what runs."""
    return tf.compat.v1.Session(graph=tf.Graph())


class SavedModel:
    """A loaded SavedModel; any that TensorFlow Serving takes.

    Args:
        path: The version's directory.
        session: Of `new_session`, so that another thread can close it while this one
            loads. Default a new one.

    Attributes:
        signature_defs: Its signatures by name.

    Raises:
        ServingError: If it cannot be loaded.
    """

    def __init__(
        self, path: str | Path, session: tf.compat.v1.Session | None = None
    ) -> None:
        self._session = session or new_session()
        try:
            loaded = tf.compat.v1.saved_model.loader.load(
                self._session, [tf.saved_model.SERVING], str(path)
            )
        except Exception as error:
            self._session.close()
            # Whatever is wrong with the files, the server stays up and says so.
            raise ServingError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{path} cannot be loaded: {type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else ''}",
            ) from error
        self.signature_defs = dict(loaded.signature_def)

    def close(self) -> None:
        """Frees what the model takes."""
        self._session.close()

    def signature(self, name: str) -> SignatureDef:
        """Returns a signature.

        Args:
            name: Its name; empty for "serving_default".

        Raises:
            ServingError: If there is none of that name.
        """
        name = name or DEFAULT_SIGNATURE
        callable_ = {n for n in self.signature_defs if not n.startswith(_OF_LOADERS)}
        if name not in callable_:
            raise ServingError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f'Serving signature key "{name[:100]}" not found. The model has '
                f"{sorted(callable_)}.",
            )
        return self.signature_defs[name]

    def check(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> None:
        """Holds inputs to a signature.

        Raises:
            ServingError: If names, dtypes or shapes do not fit.
        """
        expected = self.signature(signature_name).inputs
        if set(inputs) != set(expected):
            raise invalid(
                f"The inputs do not match the signature. Sent extra: "
                f"{shown(sorted(set(inputs) - set(expected)))}. Missing but required: "
                f"{sorted(set(expected) - set(inputs))}."
            )
        for name, array in inputs.items():
            info = expected[name]
            dtype = tf.as_dtype(info.dtype)
            sent = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
            if sent != dtype:
                raise invalid(f"Input {name} is {dtype.name}. Received: {sent.name}")
            check_shape(name, info, array.shape)

    def outputs_of(self, signature_name: str, output_filter: Iterable[str]) -> set[str]:
        """Returns the names of the outputs wanted: those given, or all.

        Raises:
            ServingError: If there is no output of a name.
        """
        outputs = set(self.signature(signature_name).outputs)
        unknown = set(output_filter) - outputs
        if unknown:
            raise invalid(
                f"There is no output {shown(sorted(unknown))}. The signature has "
                f"{sorted(outputs)}."
            )
        return set(output_filter) or outputs

    def is_batchable(self, signature_name: str) -> bool:
        """Tells whether all inputs and outputs have a first axis of any size."""
        signature = self.signature(signature_name)
        infos = [*signature.inputs.values(), *signature.outputs.values()]
        return bool(signature.inputs) and all(
            not info.tensor_shape.unknown_rank
            and len(info.tensor_shape.dim) > 0
            and info.tensor_shape.dim[0].size == -1
            for info in infos
        )

    def row_lengths(
        self, signature_name: str, inputs: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Returns the length of each row of inputs that have a first axis of any size.

        It is in bytes: those of strings, and of arrays that may have any size along
        another axis. A row of a text takes at most as many tokens.

        Args:
            signature_name: A signature.
            inputs: What `check` has passed, with as many rows each.

        Returns:
            `[rows]` int64.
        """
        infos = self.signature(signature_name).inputs
        rows = len(next(iter(inputs.values())))
        lengths = np.zeros(rows, np.int64)
        for name, array in inputs.items():
            if array.dtype == object:
                flat = array.reshape(rows, math.prod(array.shape[1:]))
                lengths += [sum(map(len, row)) for row in flat]
            elif any(dim.size < 0 for dim in infos[name].tensor_shape.dim[1:]):
                lengths += array.nbytes // max(rows, 1)
        return lengths

    def has_fixed_rows(self, signature_name: str, name: str) -> bool:
        """Tells whether the rows of an output are of one shape, whatever the inputs."""
        info = self.signature(signature_name).outputs[name]
        return all(dim.size >= 0 for dim in info.tensor_shape.dim[1:])

    def run(
        self,
        signature_name: str,
        inputs: Mapping[str, np.ndarray],
        names: set[str],
        seconds: float = math.inf,
    ) -> Arrays:
        """Answers one request, or several at once. Safe in several threads.

        Args:
            signature_name: A signature.
            inputs: What `check` has passed.
            names: The outputs wanted.
            seconds: After how long to stop computing: between two operations, or in
                those that wait. Default never.

        Raises:
            TimeoutError: If it was stopped.
            tf.errors.OpError: What the model raises.
        """
        signature = self.signature(signature_name)
        feeds = {signature.inputs[name].name: inputs[name] for name in inputs}
        fetches = {name: signature.outputs[name].name for name in names}
        options = None
        if seconds < math.inf:
            milliseconds = max(math.ceil(seconds * 1000), 1)
            options = tf.compat.v1.RunOptions(timeout_in_ms=milliseconds)
        try:
            found = self._session.run(fetches, feeds, options)
        except tf.errors.DeadlineExceededError:
            raise TimeoutError from None
        return {
            # NumPy would give a lone string a type of fixed width, which cannot tell
            # zeros at its end from padding.
            name: np.asarray(value, object if isinstance(value, bytes) else None)
            for name, value in found.items()
        }


def bytes_of(arrays: Arrays) -> int:
    """Returns what arrays take in memory, the strings in them included."""
    return sum(
        array.nbytes + (sum(map(len, array.flat)) if array.dtype == object else 0)
        for array in arrays.values()
    )


def check_shape(name: str, info: TensorInfo, shape: Sequence[int]) -> None:
    """Holds the shape of an input to its signature.

    Args:
        name: The input.
        info: What the signature says of it.
        shape: What was sent.

    Raises:
        ServingError: If it does not fit.
    """
    expected = tf.TensorShape(info.tensor_shape)
    if not expected.is_compatible_with(shape):
        raise invalid(
            f"Input {name} has the shape {_shown(expected)}. Received: {shown(shape)}"
        )


def check_rows(given: Iterable[int], max_rows: int) -> None:
    """Holds the first axes of the inputs of a request to a limit.

    Raises:
        ServingError: If one is longer.
    """
    most = max(given, default=0)
    if most > max_rows:
        rows = counted(max_rows, "row")
        raise invalid(f"A request has at most {rows}. Received: {most}")


def _shown(shape: tf.TensorShape) -> str:
    if shape.rank is None:
        return "of any rank"
    return f"[{', '.join('any' if d is None else str(d) for d in shape)}]"
