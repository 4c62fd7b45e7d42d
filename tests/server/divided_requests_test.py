"""A request larger than a batch is split into several without changing its result."""

import asyncio
import sys
import threading

import exported
import numpy as np
import pytest
from registries import WAIT, config_of, registry_of
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.export.row_independence import output_padding
from t2t_keras.server.batch_request import Rows, equal_rows
from t2t_keras.server.predictor import Predictor
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.request_batcher import Batcher
from t2t_keras.server.serving_errors import ServingError


class Spelling:
    """A model whose outputs are as wide as the longest row of a batch.

    It records its batches; the first one waits for `go_on`.
    """

    def __init__(self, fails_on=b"*"):
        self.go_on = threading.Event()
        self.entered = threading.Semaphore(0)
        self.batches, self.seconds = [], []
        self.fails_on = fails_on

    def __call__(self, inputs, seconds):
        texts = inputs["x"].tolist()
        self.batches.append(b" ".join(texts).decode())
        self.seconds.append(seconds)
        self.entered.release()
        assert self.go_on.wait(WAIT)
        if self.fails_on in texts:
            raise ValueError("a bad row")
        width = max(map(len, texts))
        codes = np.full((len(texts), width), -1)
        for row, text in zip(codes, texts, strict=True):
            row[: len(text)] = list(text)
        return {"codes": codes, "length": np.array([len(text) for text in texts])}


def texts_of(text):
    array = np.empty(len(text.split()), object)
    array[:] = [word.encode() for word in text.split()]
    return {"x": array}


class BusyBatcher:
    """A batcher of one thread that is blocked by the batch "first"."""

    def __init__(self, model, **options):
        self.model = model
        self.batcher = Batcher(num_batch_threads=1, **options)
        self.first = self("first")
        assert model.entered.acquire(timeout=WAIT)

    def __call__(self, text, padding=None, deduplicates=False, **options):
        inputs = texts_of(text)
        lengths = np.array([len(text) for text in inputs["x"]])
        same_as = equal_rows(inputs) if deduplicates else None
        rows = Rows(lengths, padding, same_as)
        return self.batcher.submit("key", self.model, inputs, rows=rows, **options)

    def end(self):
        """Unblocks the model and returns its batches except the first one."""
        self.model.go_on.set()
        self.batcher.close()
        return self.model.batches[1:]


PADDING = {"codes": -1}


def expected_outputs(text):
    """Returns the outputs of a request that runs in a single batch."""
    model = Spelling()
    model.go_on.set()
    return model(texts_of(text), 1)


def assert_equal_outputs(outputs, expected):
    assert set(outputs) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array)
        assert outputs[name].dtype == array.dtype


def test_large_request_takes_turns_with_other_requests():
    ask = BusyBatcher(Spelling(), max_batch_size=2)
    large, small = ask("aa bb cc dd ee", PADDING), ask("ff")
    assert ask.end() == ["aa bb", "ff", "cc dd", "ee"]
    assert_equal_outputs(large.result(WAIT), expected_outputs("aa bb cc dd ee"))
    assert_equal_outputs(small.result(WAIT), expected_outputs("ff"))


def test_batches_respect_maximum_length_and_group_rows_of_similar_length():
    ask = BusyBatcher(Spelling(), max_batch_length=8)
    text = "a bbbb cc dddd ee eeeeeeeeeeee f"
    large, small = ask(text, PADDING), ask("gg hh")
    assert ask.end() == ["eeeeeeeeeeee", "gg hh", "bbbb dddd", "cc ee a f"]
    assert_equal_outputs(large.result(WAIT), expected_outputs(text))
    assert_equal_outputs(small.result(WAIT), expected_outputs("gg hh"))


def test_small_requests_are_joined_up_to_maximum_batch_length():
    ask = BusyBatcher(Spelling(), max_batch_length=8)
    for text in ("a b", "cc", "dddd", "e", "f"):
        ask(text)
    assert ask.end() == ["a b cc", "dddd e", "f"]


def test_request_that_must_not_be_split_runs_alone():
    ask = BusyBatcher(Spelling(), max_batch_size=2, max_batch_length=4)
    text = "aa bb cc"
    large, small = ask(text), ask("dd")
    assert ask.end() == [text, "dd"]
    assert_equal_outputs(large.result(WAIT), expected_outputs(text))
    assert_equal_outputs(small.result(WAIT), expected_outputs("dd"))


def test_failed_part_fails_its_request_only():
    ask = BusyBatcher(Spelling(fails_on=b"bb"), max_batch_size=2)
    large, small = ask("aa bb cc dd ee", PADDING), ask("ff")
    assert ask.end() == ["aa bb", "ff"]
    with pytest.raises(ValueError, match="a bad row"):
        large.result(WAIT)
    assert_equal_outputs(small.result(WAIT), expected_outputs("ff"))


def test_duplicate_rows_are_computed_once():
    ask = BusyBatcher(Spelling(), max_batch_size=2)
    text = "aa bb aa aa cc bb aa"
    large = ask(text, PADDING, deduplicates=True)
    duplicates = ask("dd dd", deduplicates=True)
    other = ask("ee ee")
    assert ask.end() == ["aa bb", "dd", "ee ee", "cc"]
    assert_equal_outputs(large.result(WAIT), expected_outputs(text))
    assert_equal_outputs(duplicates.result(WAIT), expected_outputs("dd dd"))
    assert_equal_outputs(other.result(WAIT), expected_outputs("ee ee"))


def test_duplicate_rows_count_each_towards_response_size():
    ask = BusyBatcher(Spelling(), max_response_bytes=100)
    large, small = ask("aa " * 5, deduplicates=True), ask("bb")
    assert ask.end() == ["aa bb"]
    with pytest.raises(ServingError, match="more than 100 bytes"):
        large.result(WAIT)
    assert_equal_outputs(small.result(WAIT), expected_outputs("bb"))


def test_rows_are_equal_if_all_inputs_are_equal():
    def texts(*values):
        array = np.empty(len(values), object)
        array[:] = values
        return array

    first_equal_rows = equal_rows(
        {"a": texts(b"x", b"x", b"x\0", b"x"), "b": np.array([1, 2, 1, 1])}
    )
    assert first_equal_rows.tolist() == [0, 1, 2, 0]
    ids = np.array([[1, 2], [1, 0], [1, 2]])
    assert equal_rows({"ids": ids}).tolist() == [0, 1, 0]
    words = texts(b"a", b"b", b"a", b"b").reshape(2, 2)
    assert equal_rows({"words": words}).tolist() == [0, 0]
    assert equal_rows({"none": np.zeros(0)}).tolist() == []


class CancelledDuringRun(Spelling):
    """A model whose client cancels the request while it runs."""

    def __call__(self, inputs, seconds):
        outputs = super().__call__(inputs, seconds)
        if self.batches[-1] == "aa bb":
            assert self.client.cancel()
        return outputs


def test_rest_of_a_cancelled_request_is_not_computed():
    ask = BusyBatcher(CancelledDuringRun(), max_batch_size=2)
    ask.model.client = ask("aa bb cc dd ee", PADDING)
    ask("ff")
    assert ask.end() == ["aa bb", "ff"]


def test_too_large_response_fails_the_request():
    ask = BusyBatcher(Spelling(), max_batch_size=2, max_response_bytes=80)
    large, small = ask("aa bb cc dd ee", PADDING), ask("ff")
    assert ask.end() == ["aa bb", "ff", "cc dd"]
    with pytest.raises(ServingError, match="more than 80 bytes"):
        large.result(WAIT)
    assert_equal_outputs(small.result(WAIT), expected_outputs("ff"))


def test_batch_runs_until_the_last_deadline_of_its_requests():
    ask = BusyBatcher(Spelling())
    late = ask("aa", seconds=0)
    ask("bb", seconds=100)
    ask("cc", seconds=1000)
    assert ask.end() == ["aa bb cc"]
    assert 100 < ask.model.seconds[1] <= 1000
    assert_equal_outputs(late.result(WAIT), expected_outputs("aa"))


def test_expired_requests_are_not_computed():
    ask = BusyBatcher(Spelling())
    late = ask("aa", seconds=0)
    assert ask.end() == []
    with pytest.raises(TimeoutError):
        late.result(WAIT)


TEXTS = ["no 7 the 3 a dog 12", "the 7", "", "a dog 3 no", "no", "the the the", "a dog"]


@pytest.mark.parametrize("signature", ["serving_default", "n_best", "ids", "align"])
def test_exports_return_same_result_for_split_requests(signature, tmp_path_factory):
    base = tmp_path_factory.getbasetemp() / "divided"
    if not base.exists():
        base.mkdir()
        exported.export(base / "1", *exported.toy())
    text = np.array([text.encode() for text in TEXTS], object)
    inputs = {"text": text, "translation": text[::-1]}
    if signature == "ids":
        rows = [[5, 9, 6, 7, 12], [8], [], [10, 5], [11, 13, 6], [99, 5], [7, 7]]
        ids = np.zeros((len(rows), 5), np.int32)
        for row, values in zip(ids, rows, strict=True):
            row[: len(values)] = values
        inputs = {"source_ids": ids}
    elif signature != "align":
        del inputs["translation"]
    batches = []
    with registry_of(config_of(words=base)) as (registry, _):
        registry.loaded.result(WAIT)

        def predict(**options):
            batches.clear()
            batcher = Batcher(observe=lambda _, rows: batches.append(rows), **options)
            predictor = Predictor(registry, batcher, Metrics())
            spec = ModelSpec(name="words", signature_name=signature)
            prediction = predictor.predict(spec, inputs, (), WAIT, "GRPC")
            outputs, _ = asyncio.run(prediction)
            batcher.close()
            return outputs

        undivided = predict()
        assert batches == [len(TEXTS)]
        divided = predict(max_batch_size=3, max_batch_length=30)
        assert len(batches) > 2
        assert sum(batches) == len(TEXTS)
    assert set(divided) == set(undivided)
    for name, array in undivided.items():
        assert divided[name].dtype == array.dtype
        if array.dtype == np.float32:
            np.testing.assert_allclose(divided[name], array, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(divided[name], array)
    padding = output_padding(base / "1")
    assert {value for name, value in padding.items() if "words" in name} == {-1}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
