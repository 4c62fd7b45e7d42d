"""A SavedModel, run through the session loader as in TensorFlow Serving."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  Registers the operations of exports.
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo

from t2t_keras.plurals import counted
from t2t_keras.server.serving_errors import ServingError, abbreviated, invalid

DEFAULT_SIGNATURE = "serving_default"

_LOADER_PREFIX = "__saved_model_"
"""Prefix of signatures that only the loader runs."""

Arrays = dict[str, np.ndarray]

MAX_AXES = 64
"""Maximum number of axes of a NumPy array; TensorFlow allows 254."""


def new_session() -> tf.compat.v1.Session:
    """Returns a session for a SavedModel; closing it interrupts running operations."""
    return tf.compat.v1.Session(graph=tf.Graph())


class SavedModel:
    """A loaded SavedModel, of any kind that TensorFlow Serving supports.

    Args:
        path: Directory of the version.
        session: Session from `new_session`, which another thread can close to cancel
            loading. Default a new one.

    Attributes:
        signature_defs: Signatures by name.

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
            # Whatever is wrong with the files, the server keeps running and reports it.
            raise ServingError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"{path} cannot be loaded: {type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else ''}",
            ) from error
        self.signature_defs = dict(loaded.signature_def)

    def close(self) -> None:
        """Frees the model."""
        self._session.close()

    def signature(self, name: str) -> SignatureDef:
        """Returns a signature.

        Args:
            name: Name of the signature; empty for "serving_default".

        Raises:
            ServingError: If there is no such signature.
        """
        name = name or DEFAULT_SIGNATURE
        callable_names = {
            n for n in self.signature_defs if not n.startswith(_LOADER_PREFIX)
        }
        if name not in callable_names:
            raise ServingError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f'Serving signature key "{name[:100]}" not found. The model has '
                f"{sorted(callable_names)}.",
            )
        return self.signature_defs[name]

    def check(self, signature_name: str, inputs: Mapping[str, np.ndarray]) -> None:
        """Checks inputs against a signature.

        Raises:
            ServingError: If names, dtypes or shapes do not match.
        """
        expected = self.signature(signature_name).inputs
        if set(inputs) != set(expected):
            raise invalid(
                f"The inputs do not match the signature. Sent extra: "
                f"{abbreviated(sorted(set(inputs) - set(expected)))}. Missing but "
                f"required: {sorted(set(expected) - set(inputs))}."
            )
        for name, array in inputs.items():
            info = expected[name]
            dtype = tf.as_dtype(info.dtype)
            sent = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
            if sent != dtype:
                raise invalid(
                    f"Input {name} must be {dtype.name}. Received: {sent.name}"
                )
            check_shape(name, info, array.shape)

    def outputs_of(self, signature_name: str, output_filter: Iterable[str]) -> set[str]:
        """Returns the names of the requested outputs: those of the filter, or all.

        Raises:
            ServingError: If there is no such output.
        """
        outputs = set(self.signature(signature_name).outputs)
        unknown = set(output_filter) - outputs
        if unknown:
            raise invalid(
                f"There is no output {abbreviated(sorted(unknown))}. The signature has "
                f"{sorted(outputs)}."
            )
        return set(output_filter) or outputs

    def is_batchable(self, signature_name: str) -> bool:
        """Returns whether all inputs and outputs have a variable first axis."""
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
        """Returns the length of each row of inputs with a variable first axis.

        The length is in bytes; only strings and arrays with another variable axis
        count. A row of text has at most as many tokens.

        Args:
            signature_name: Name of the signature.
            inputs: Inputs that `check` has accepted, with equal numbers of rows.

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
        """Returns whether all rows of an output have the same, static shape."""
        info = self.signature(signature_name).outputs[name]
        return all(dim.size >= 0 for dim in info.tensor_shape.dim[1:])

    def run(
        self,
        signature_name: str,
        inputs: Mapping[str, np.ndarray],
        names: set[str],
        seconds: float = math.inf,
    ) -> Arrays:
        """Runs a signature. Thread-safe.

        Args:
            signature_name: Name of the signature.
            inputs: Inputs that `check` has accepted.
            names: Names of the outputs to return.
            seconds: Timeout in seconds. The computation stops between two operations,
                or inside operations that wait. Default none.

        Raises:
            TimeoutError: If the timeout has passed.
            tf.errors.OpError: If the model fails.
        """
        signature = self.signature(signature_name)
        feeds = {signature.inputs[name].name: inputs[name] for name in inputs}
        fetches = {name: signature.outputs[name].name for name in names}
        options = None
        if seconds < math.inf:
            milliseconds = max(math.ceil(seconds * 1000), 1)
            options = tf.compat.v1.RunOptions(timeout_in_ms=milliseconds)
        try:
            outputs = self._session.run(fetches, feeds, options)
        except tf.errors.DeadlineExceededError:
            raise TimeoutError from None
        return {
            # NumPy would give a single string a type of fixed width, which loses
            # trailing zeros.
            name: np.asarray(value, object if isinstance(value, bytes) else None)
            for name, value in outputs.items()
        }


def bytes_of(arrays: Arrays) -> int:
    """Returns the size of arrays in memory in bytes, including their strings."""
    return sum(
        array.nbytes + (sum(map(len, array.flat)) if array.dtype == object else 0)
        for array in arrays.values()
    )


def check_shape(name: str, info: TensorInfo, shape: Sequence[int]) -> None:
    """Checks the shape of an input against its signature.

    Args:
        name: Name of the input.
        info: Entry of the input in the signature.
        shape: Received shape.

    Raises:
        ServingError: If the shape does not match.
    """
    expected = tf.TensorShape(info.tensor_shape)
    if not expected.is_compatible_with(shape):
        raise invalid(
            f"Input {name} must have shape {_format(expected)}. "
            f"Received: {abbreviated(shape)}"
        )


def check_rows(row_counts: Iterable[int], max_rows: int) -> None:
    """Checks the numbers of rows of a request's inputs against the limit.

    Raises:
        ServingError: If an input has more rows.
    """
    maximum = max(row_counts, default=0)
    if maximum > max_rows:
        rows = counted(max_rows, "row")
        raise invalid(f"A request may have at most {rows}. Received: {maximum:,}")


def _format(shape: tf.TensorShape) -> str:
    if shape.rank is None:
        return "of any rank"
    return f"[{', '.join('any' if d is None else str(d) for d in shape)}]"
