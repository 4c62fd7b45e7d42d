"""TensorFlow Serving's API beyond Predict and its edge cases, over both protocols."""

import shutil
import sys

import grpc
import pytest
import served
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    model_management_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from t2t_keras.export.warmup import WARMUP_PATH
from t2t_keras.server.example_list import read_examples
from t2t_keras.server.model_version import Version
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.serving_errors import ServingError

URL = "/v1/models/default"
CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"
TEXTS = tf.TensorSpec([None], tf.string, name="inputs")


def parse_examples(inputs):
    """Returns the features of Examples: `x` [batch], and `word` [batch]."""
    features = {
        "x": tf.io.FixedLenFeature([], tf.float32),
        "word": tf.io.FixedLenFeature([], tf.string, "none"),
    }
    parsed = tf.io.parse_example(inputs, features)
    return parsed["x"], parsed["word"]


class Model(tf.Module):
    """Valid and invalid signatures of Examples, and one of numbers."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def double(self, x):
        return {"y": 2 * x}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def turn(self, x):
        return {"y": tf.complex(x, -x)}

    @tf.function(input_signature=[TEXTS])
    def classify(self, inputs):
        x, word = parse_examples(inputs)
        classes = tf.stack([word, tf.fill([tf.size(x)], b"\xff")], 1)
        return {"classes": classes, "scores": tf.stack([x, 1 - x], 1)}

    @tf.function(input_signature=[TEXTS])
    def score(self, inputs):
        return {"scores": parse_examples(inputs)[0][:, tf.newaxis]}

    @tf.function(input_signature=[TEXTS])
    def name(self, inputs):
        return {"classes": parse_examples(inputs)[1][:, tf.newaxis]}

    @tf.function(input_signature=[TEXTS])
    def regress(self, inputs):
        return {"outputs": 10 * parse_examples(inputs)[0]}

    @tf.function(input_signature=[TEXTS])
    def column(self, inputs):
        return {"outputs": 10 * parse_examples(inputs)[0][:, tf.newaxis]}

    @tf.function(input_signature=[TEXTS])
    def wide(self, inputs):
        """Returns outputs of a shape that Regress does not support."""
        x = parse_examples(inputs)[0]
        return {"outputs": tf.stack([x, x], 1)}

    @tf.function(input_signature=[TEXTS])
    def flat(self, inputs):
        return {"scores": parse_examples(inputs)[0]}

    @tf.function(input_signature=[TEXTS])
    def exact(self, inputs):
        return {"outputs": tf.cast(parse_examples(inputs)[0], tf.float64)}


SIGNATURES = (
    *("turn", "classify", "score", "name", "regress", "column", "wide", "flat"),
    "exact",
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    model = Model()
    signatures = {name: getattr(model, name) for name in SIGNATURES}
    signatures["serving_default"] = model.double
    tf.saved_model.save(model, str(path / "1"), signatures=signatures)
    return path


@pytest.fixture(scope="module")
def server(base):
    with served.server(f"--model_base_path={base}", "--max_request_rows=4") as running:
        yield running
        assert not any("Traceback" in line for line in running.lines if line)


@pytest.fixture(scope="module")
def stub(server):
    with server.channel() as channel:
        yield served.prediction(channel)


def example(**features):
    """Returns an Example of numbers and texts."""
    proto = tf.train.Example()
    for name, value in features.items():
        feature = proto.features.feature[name]
        if isinstance(value, str):
            feature.bytes_list.value.append(value.encode())
        else:
            feature.float_list.value.append(value)
    return proto


def request_of(kind, signature, *examples, context=None):
    request = kind()
    if not isinstance(request, inference_pb2.MultiInferenceRequest):
        request.model_spec.name = "default"
        request.model_spec.signature_name = signature
    if context:
        request.input.example_list_with_context.context.CopyFrom(context)
        request.input.example_list_with_context.examples.extend(examples)
    else:
        request.input.example_list.examples.extend(examples)
    return request


def classification(signature, *examples, **options):
    return request_of(
        classification_pb2.ClassificationRequest, signature, *examples, **options
    )


def regression(signature, *examples, **options):
    return request_of(regression_pb2.RegressionRequest, signature, *examples, **options)


def classes(result):
    return [
        [(entry.label, entry.score) for entry in row.classes]
        for row in result.classifications
    ]


def code_of(call, request):
    with pytest.raises(grpc.RpcError) as raised:
        call(request)
    return raised.value.code().name, raised.value.details()


def test_classify_returns_labels_and_scores(stub):
    examples = example(x=0.25, word="a"), example(x=0.5)
    response = stub.Classify(classification("classify", *examples))
    assert classes(response.result) == [
        [("a", 0.25), ("\ufffd", 0.75)],
        [("none", 0.5), ("\ufffd", 0.5)],
    ]
    assert response.model_spec.version.value == 1
    assert response.model_spec.signature_name == "classify"
    scores = stub.Classify(classification("score", *examples)).result
    assert classes(scores) == [[("", 0.25)], [("", 0.5)]]
    names = stub.Classify(classification("name", *examples)).result
    assert classes(names) == [[("a", 0)], [("none", 0)]]


@pytest.mark.parametrize("signature", ["regress", "column"])
def test_regress_returns_a_value_for_each_example(stub, signature):
    response = stub.Regress(regression(signature, example(x=0.25), example(x=2.0)))
    assert [row.value for row in response.result.regressions] == [2.5, 20]
    assert response.model_spec.signature_name == signature


def test_context_counts_once_per_example():
    context = example(word="c" * 1000)
    examples_input = classification(
        "name", *[example(x=1.0)] * 50, context=context
    ).input
    assert len(examples_input.SerializeToString()) < 5000
    assert len(read_examples(examples_input, 60_000)) == 50
    with pytest.raises(ServingError, match="more than the maximum of 40,000"):
        read_examples(examples_input, 40_000)


def test_context_provides_features_that_examples_lack(stub):
    examples = (example(x=0.25), example(x=0.5, word="b"))
    context = example(x=9.0, word="c")
    response = stub.Classify(classification("name", *examples, context=context))
    assert classes(response.result) == [[("c", 0)], [("b", 0)]]


def tasks_of(*tasks, **options):
    request = request_of(
        inference_pb2.MultiInferenceRequest, None, example(x=0.25), **options
    )
    for signature, method in tasks:
        task = request.tasks.add(method_name=method)
        task.model_spec.name = "default"
        task.model_spec.signature_name = signature
    return request


def test_multi_inference_returns_results_in_order_of_tasks(stub):
    tasks = (("regress", REGRESS), ("score", CLASSIFY), ("column", REGRESS))
    response = stub.MultiInference(tasks_of(*tasks))
    first, second, third = response.results
    assert first.regression_result.regressions[0].value == 2.5
    assert classes(second.classification_result) == [[("", 0.25)]]
    assert third.regression_result.regressions[0].value == 2.5
    assert [r.model_spec.signature_name for r in response.results] == [
        *("regress", "score", "column")
    ]


def test_invalid_requests_with_examples_are_rejected(stub):
    valid = example(x=0.5)
    for call, request, code, message in (
        (stub.Classify, classification("classify"), "INVALID_ARGUMENT", "is empty"),
        (stub.Classify, classification("", valid), "INVALID_ARGUMENT", "the inputs"),
        (stub.Classify, classification("no", valid), "INVALID_ARGUMENT", "not found"),
        (stub.Classify, classification("regress", valid), "INVALID_ARGUMENT", "scores"),
        (stub.Classify, classification("flat", valid), "INVALID_ARGUMENT", "shape [1]"),
        (stub.Regress, regression("classify", valid), "INVALID_ARGUMENT", "outputs"),
        (stub.Regress, regression("wide", valid), "INVALID_ARGUMENT", "shape [1, 2]"),
        (stub.Regress, regression("exact", valid), "INVALID_ARGUMENT", "float64"),
        (
            stub.Regress,
            regression("regress", *[valid] * 5),
            "INVALID_ARGUMENT",
            "4 rows",
        ),
        (stub.Regress, regression("regress", example()), "INVALID_ARGUMENT", "x"),
        (stub.MultiInference, tasks_of(), "INVALID_ARGUMENT", "no tasks"),
        (
            stub.MultiInference,
            tasks_of(("score", CLASSIFY), ("score", CLASSIFY)),
            "INVALID_ARGUMENT",
            "different signature",
        ),
        (
            stub.MultiInference,
            tasks_of(("score", "tensorflow/serving/predict")),
            "UNIMPLEMENTED",
            "method_name",
        ),
    ):
        actual_code, details = code_of(call, request)
        assert (actual_code, message in details) == (code, True), (message, details)
    request = tasks_of(("score", CLASSIFY), ("regress", REGRESS))
    request.tasks[1].model_spec.name = "other"
    assert code_of(stub.MultiInference, request)[0] == "INVALID_ARGUMENT"


def test_warmup_requests_of_all_methods_are_run(base, tmp_path):
    shutil.copytree(base / "1", tmp_path / "1")
    path = tmp_path / "1" / WARMUP_PATH
    path.parent.mkdir(exist_ok=True)

    def error_of(**logs):
        with tf.io.TFRecordWriter(str(path)) as writer:
            for name, request in logs.items():
                record = prediction_log_pb2.PredictionLog()
                getattr(record, name).request.CopyFrom(request)
                writer.write(record.SerializeToString())
        version = Version(1, tmp_path / "1")
        version.load(Metrics())
        version.unload()
        version.close()
        return version.error.message if version.error else None

    valid = example(x=0.5)
    valid_logs = {
        "predict_log": served.predict_request(x=[1.0]),
        "classify_log": classification("classify", valid),
        "regress_log": regression("regress", valid),
        "multi_inference_log": tasks_of(("score", CLASSIFY), ("column", REGRESS)),
    }
    assert error_of(**valid_logs) is None
    for name, invalid_request in {
        "classify_log": classification("no", valid),
        "regress_log": regression("regress", example()),
        "multi_inference_log": tasks_of(("score", CLASSIFY), ("no", REGRESS)),
    }.items():
        assert error_of(**{**valid_logs, name: invalid_request})


def test_classify_and_regress_over_rest(server):
    body = {
        "signature_name": "classify",
        "context": {"word": "c"},
        "examples": [{"x": 0.1}, {"x": [0.5], "word": [{"b64": "w7w="}]}],
    }
    assert server.get(f"{URL}:classify", body) == (
        200,
        {"results": [[["c", 0.1], ["\ufffd", 0.9]], [["ü", 0.5], ["\ufffd", 0.5]]]},
    )
    body = {"signature_name": "regress", "examples": [{"x": 0.25}, {"x": 1.5}]}
    url = f"{URL}/versions/1:regress"
    assert server.get(url, body) == (200, {"results": [2.5, 15.0]})


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (None, "at least one Example"),
        ([], "at least one Example"),
        ([1], "JSON object. Received: the number 1"),
        ([{"x": None}], "Feature x must not contain null"),
        ([{"x": [[0.5]]}], "Feature x must not contain a list"),
        ([{"x": [1, 0.5]}], "of the same type"),
        ([{"x": ["a", True]}], "of the same type"),
        ([{"x": 1 << 63}], "int64"),
        ([{"x": {"b64": "?"}}], "not valid Base64"),
        ([{"\ud800": 1}], "not valid text"),
        ([{"x": 1}], "Data types don't match"),  # An integer is not a float feature.
    ],
)
def test_invalid_examples_over_rest_are_rejected(server, examples, message):
    body = {"signature_name": "regress", "examples": examples}
    status, content = server.get(f"{URL}:regress", body)
    assert (status, message in content["error"]) == (400, True), content


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/V1/MODELS", 200),
        ("/V1/Models/default", 200),
        ("/V1/Models/default/VERSIONS/1", 200),
        ("/V1/MODELS/default/metadata", 200),
        ("/v1/models/DEFAULT", 404),  # Names are case-sensitive.
        ("/v1/models/", 400),
    ],
)
def test_fixed_parts_of_a_path_are_case_insensitive(server, path, status):
    assert server.get(path)[0] == status


def test_predict_by_a_path_in_capitals(server):
    body = {"instances": [1.0]}
    url = "/V1/MODELS/default/Versions/1"
    assert server.get(f"{url}:predict", body) == (200, {"predictions": [2.0]})
    assert server.get(f"{url}:PREDICT", body)[0] == 400  # As in TensorFlow Serving.
    assert server.get("/v1/models", body)[0] == 400


def test_loader_signatures_cannot_be_called(server, stub):
    name = "__saved_model_init_op"
    _, content = server.get(f"{URL}/metadata")
    assert name in content["metadata"]["signature_def"]["signature_def"]
    body = {"signature_name": name, "inputs": {}}
    status, content = server.get(f"{URL}:predict", body)
    assert (status, f'"{name}" not found' in content["error"]) == (400, True)
    request = served.predict_request("default", name)
    assert code_of(stub.Predict, request)[0] == "FAILED_PRECONDITION"


def test_complex_outputs_require_grpc(server, stub):
    for key in ("instances", "inputs"):
        body = {"signature_name": "turn", key: [1.0]}
        status, content = server.get(f"{URL}:predict", body)
        assert (status, "complex64" in content["error"]) == (400, True)
    response = stub.Predict(served.predict_request("default", "turn", x=[1.0]))
    assert tf.make_ndarray(response.outputs["y"]).tolist() == [1 - 1j]


def test_empty_signature_name_selects_the_default(stub):
    response = stub.Predict(served.predict_request("default", x=[1.0]))
    assert response.model_spec.signature_name == "serving_default"


def test_unknown_columns_are_ignored_but_unknown_keys_in_rows_are_rejected(server):
    body = {"inputs": {"x": [1.0], "more": "anything"}}
    assert server.get(f"{URL}:predict", body) == (200, {"outputs": [2.0]})
    body = {"inputs": {"more": [1.0]}}
    assert "required: ['x']" in server.get(f"{URL}:predict", body)[1]["error"]
    body = {"instances": [{"x": 1.0, "more": 1.0}]}
    assert server.get(f"{URL}:predict", body)[0] == 400


@pytest.mark.parametrize("path", ["/a\0b", "/" + "a/" * 3000])
def test_reload_with_an_invalid_path_is_rejected(server, path):
    request = model_management_pb2.ReloadConfigRequest()
    request.config.model_config_list.config.add(name="default", base_path=path)
    with server.channel() as channel:
        call = served.model_service(channel).HandleReloadConfigRequest
        assert code_of(call, request)[0] in ("INVALID_ARGUMENT", "PERMISSION_DENIED")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
