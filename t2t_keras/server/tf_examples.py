"""Classify, Regress and MultiInference: signatures that take tensorflow.Examples.

Such a signature has one input, `inputs`, of serialized Examples. A classification has
the outputs `classes` (strings), `scores` (float32) or both, `[batch, classes]`; a
regression has `outputs`, `[batch]` or `[batch, 1]` float32. The behavior follows
TensorFlow Serving's classifier.cc, regressor.cc and multi_inference.cc.
"""

import asyncio
from typing import TypeAlias

import grpc
import numpy as np
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    regression_pb2,
)
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.plurals import counted
from t2t_keras.server.example_list import EXAMPLES_INPUT
from t2t_keras.server.predictor import Predictor
from t2t_keras.server.saved_model import DEFAULT_SIGNATURE, Arrays, SavedModel
from t2t_keras.server.serving_errors import ServingError, abbreviated, invalid
from t2t_keras.server.thread_offload import offload

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
_CLASSES, _SCORES, _VALUES = "classes", "scores", "outputs"

Result: TypeAlias = (
    classification_pb2.ClassificationResult | regression_pb2.RegressionResult
)


class ExampleInference:
    """Runs requests with Examples.

    Args:
        predictor: Runs signatures.
        checks_method_names: Whether a signature's `method_name` must match the call.
            Exports of TensorFlow 2 do not have such names. Default False, as in
            TensorFlow Serving.
    """

    def __init__(self, predictor: Predictor, checks_method_names: bool = False) -> None:
        self._predictor = predictor
        self._registry = predictor.registry
        self._checks_method_names = checks_method_names

    async def infer(
        self,
        spec: ModelSpec,
        method: str,
        examples: np.ndarray,
        timeout: float,
        entry_point: str,
    ) -> tuple[Result, ModelSpec]:
        """Classifies or regresses.

        Args:
            spec: Model, version and signature.
            method: `CLASSIFY` or `REGRESS`.
            examples: `[batch]`, returned by `read_examples`.
            timeout: Timeout in seconds.
            entry_point: "GRPC" or "REST", for metrics.

        Returns:
            The result of each Example, and the spec with the version that computed it.

        Raises:
            ServingError: If the request fails.
        """
        version, model = self._registry.acquire(spec)
        version.release()
        names = self._outputs(model, spec.signature_name, method)
        inputs = {EXAMPLES_INPUT: examples}
        api = "Classify" if method == CLASSIFY else "Regress"
        outputs, response_spec = await self._predictor.predict(
            spec, inputs, names, timeout, entry_point, api
        )
        write = classifications if method == CLASSIFY else regressions
        size = sum(array.nbytes for array in outputs.values())
        return await offload(size, write, outputs, len(examples)), response_spec

    async def infer_all(
        self,
        tasks: list[inference_pb2.InferenceTask],
        examples: np.ndarray,
        timeout: float,
        entry_point: str,
    ) -> inference_pb2.MultiInferenceResponse:
        """Runs several tasks on the same Examples with one version of a model.

        Raises:
            ServingError: If one of the tasks fails.
        """
        if not tasks:
            raise invalid("The request has no tasks.")
        specs = [task.model_spec for task in tasks]
        if {spec.name for spec in specs} != {specs[0].name}:
            raise invalid("All tasks must be for the same model.")
        signatures = [spec.signature_name or DEFAULT_SIGNATURE for spec in specs]
        if len(set(signatures)) < len(signatures):
            raise invalid(
                f"Each task must have a different signature: {abbreviated(signatures)}"
            )
        version, model = self._registry.acquire(specs[0])
        try:
            for spec, task in zip(specs, tasks, strict=True):
                self._outputs(model, spec.signature_name, task.method_name)
                spec.version.value = version.number
            results = await asyncio.gather(
                *(
                    self.infer(spec, task.method_name, examples, timeout, entry_point)
                    for spec, task in zip(specs, tasks, strict=True)
                )
            )
        finally:
            version.release()
        response = inference_pb2.MultiInferenceResponse()
        for result, response_spec in results:
            entry = response.results.add(model_spec=response_spec)
            if isinstance(result, classification_pb2.ClassificationResult):
                entry.classification_result.CopyFrom(result)
            else:
                entry.regression_result.CopyFrom(result)
        return response

    def _outputs(self, model: SavedModel, name: str, method: str) -> list[str]:
        """Checks a signature against a method; returns the outputs to request."""
        name = name or DEFAULT_SIGNATURE
        if method not in (CLASSIFY, REGRESS):
            raise ServingError(
                grpc.StatusCode.UNIMPLEMENTED,
                f"A task's method_name must be {CLASSIFY} or {REGRESS}. Received: "
                f"{method[:100]!r}",
            )
        try:
            signature = model.signature(name)
        except ServingError as error:
            # INVALID_ARGUMENT in TensorFlow Serving, unlike in Predict.
            raise invalid(error.message) from None
        if self._checks_method_names and signature.method_name != method:
            raise invalid(
                f"The method_name of the signature {name} is "
                f"{signature.method_name!r}, not {method}."
            )
        if set(signature.inputs) != {EXAMPLES_INPUT}:
            raise invalid(
                f'This method requires exactly one input, "{EXAMPLES_INPUT}". The '
                f"signature {name} has the inputs {sorted(signature.inputs)}."
            )
        return _expected_outputs(name, signature, method)


def _expected_outputs(name: str, signature: SignatureDef, method: str) -> list[str]:
    outputs = sorted(signature.outputs)
    if method == REGRESS and outputs != [_VALUES]:
        raise invalid(
            f'Regress requires exactly one output, "{_VALUES}". The signature {name} '
            f"has the outputs {outputs}."
        )
    if method == CLASSIFY:
        outputs = [output for output in outputs if output in (_CLASSES, _SCORES)]
        if not outputs or len(signature.outputs) > 2:
            raise invalid(
                f'Classify requires the output "{_CLASSES}", "{_SCORES}" or both. The '
                f"signature {name} has the outputs {sorted(signature.outputs)}."
            )
    return outputs


def classifications(
    outputs: Arrays, number: int
) -> classification_pb2.ClassificationResult:
    """Returns the labels and scores of Examples.

    Args:
        outputs: Outputs of the signature.
        number: Number of Examples.

    Raises:
        ServingError: If an output has a wrong dtype or is not `[number, classes]`.
    """
    classes, scores = outputs.get(_CLASSES), outputs.get(_SCORES)
    for name, array, dtype in (
        (_CLASSES, classes, np.dtype(object)),
        (_SCORES, scores, np.dtype(np.float32)),
    ):
        if array is not None:
            _check_output(name, array, dtype, number, [2])
    widths = {array.shape[1] for array in (classes, scores) if array is not None}
    if len(widths) > 1:
        raise invalid(f"{_CLASSES} and {_SCORES} differ in their number of classes.")
    (width,) = widths
    result = classification_pb2.ClassificationResult()
    for row in range(number):
        classes_of_row = result.classifications.add().classes
        for column in range(width):
            entry = classes_of_row.add()
            if classes is not None:
                entry.label = classes[row, column].decode("utf-8", "replace")
            if scores is not None:
                entry.score = scores[row, column]
    return result


def regressions(outputs: Arrays, number: int) -> regression_pb2.RegressionResult:
    """Returns the values of Examples.

    Args:
        outputs: Outputs of the signature.
        number: Number of Examples.

    Raises:
        ServingError: If the output is not `[number]` or `[number, 1]` float32.
    """
    array = outputs[_VALUES]
    _check_output(_VALUES, array, np.dtype(np.float32), number, [1, 2])
    if array.size != number:
        raise invalid(f"Output {_VALUES} has the wrong shape {list(array.shape)}.")
    result = regression_pb2.RegressionResult()
    for value in array.ravel():
        result.regressions.add(value=value)
    return result


def _check_output(
    name: str, array: np.ndarray, dtype: np.dtype, number: int, ranks: list[int]
) -> None:
    if array.ndim not in ranks or len(array) != number or array.dtype != dtype:
        kind = "string" if dtype.hasobject else dtype.name
        raise invalid(
            f"Output {name} must be {kind}, for {counted(number, 'Example')}. It is "
            f"{array.dtype.name} with shape {list(array.shape)}."
        )
