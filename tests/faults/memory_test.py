"""A server stays within its memory budget under any requests: `make test-faults`."""

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import exported
import grpc
import pytest
import served
import tensorflow as tf

pytestmark = pytest.mark.faults
BODY = 15 << 20
UNITS = [b"[1],", b"0.123,", b"[0.5,0.25],", b'"a",', b'"' + b"a" * 99 + b'",']
NAMES = "words", "unmarked", "hog"
MODEL = 'config {{ name: "{0}" base_path: "{1}/{0}" }}'


class Hog(tf.Module):
    """A model that allocates a given number of MiB."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, name="mb")])
    def take(self, mb):
        return {"sum": tf.reduce_sum(tf.random.uniform([mb, 1 << 18]))}


def peak_mb(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def repeated(rows, words, model="words", **options):
    """Returns a request whose rows share one text."""
    request = served.predict_request(model, **options)
    for name in ("text", "translation")[: 1 + (options.get("signature") == "align")]:
        request.inputs[name].dtype = tf.string.as_datatype_enum
        request.inputs[name].tensor_shape.dim.add(size=rows)
        request.inputs[name].string_val.append(b"no " * words)
    return request


def distinct(rows, words):
    """Returns a request of distinct rows."""
    text = ["no " * words + str(number) for number in range(rows)]
    return served.predict_request("words", text=text)


def test_peak_memory_stays_within_the_budget(tmp_path):
    exported.export(tmp_path / "words" / "1", *exported.toy(), max_input_tokens=1024)
    # Without the mark its requests run alone, like those of a foreign model.
    shutil.copytree(tmp_path / "words", tmp_path / "unmarked")
    (tmp_path / "unmarked" / "1" / "assets.extra" / "t2t-keras.json").unlink()
    hog = Hog()
    tf.saved_model.save(hog, str(tmp_path / "hog" / "1"), signatures=hog.take)
    models = " ".join(MODEL.format(name, tmp_path) for name in NAMES)
    (tmp_path / "config").write_text(f"model_config_list {{ {models} }}")
    config = f"--model_config_file={tmp_path / 'config'}"
    # In a separate process, since loaded modules count.
    command = [sys.executable, "-m", "t2t_keras.pipelines.serve", config]
    rejected = subprocess.run(
        [*command, "--max_memory_mb=1"], stderr=subprocess.PIPE, text=True
    )
    assert rejected.returncode == 2
    assert rejected.stderr.count("\n") == 1
    minimum = int(re.search(r"at least ([\d,]+)", rejected.stderr)[1].replace(",", ""))
    budget = minimum + 400
    with (
        served.server(
            config, f"--max_memory_mb={budget}", "--request_timeout_s=300"
        ) as server,
        server.channel() as channel,
        ThreadPoolExecutor(16) as pool,
    ):
        predict = served.prediction(channel).Predict

        def response_of(request):
            try:
                return predict(request, timeout=300).outputs
            except grpc.RpcError as error:
                return error.code().name

        def allocate(mb):
            return response_of(served.predict_request("hog", mb=mb))

        at_start = peak_mb(server)
        (expected,) = response_of(repeated(1, 1000))["translation"].string_val
        request = repeated(256, 1000)
        assert len(request.SerializeToString()) < 4000
        assert set(response_of(request)["translation"].string_val) == {expected}
        assert response_of(repeated(256, 1000, signature="align")) == "INVALID_ARGUMENT"
        responses = set(pool.map(response_of, [repeated(256, 1000, "unmarked")] * 4))
        assert responses == {"RESOURCE_EXHAUSTED"}
        (outputs,) = response_of(repeated(1, 1000, "unmarked"))[
            "translation"
        ].string_val
        assert outputs == expected
        for outputs in pool.map(response_of, [distinct(64, 200)] * 8):
            assert set(outputs["status"].string_val) == {b"ok"}
        (status,) = set(response_of(distinct(20, 900))["status"].string_val)
        assert status == b"ok"
        assert allocate(20) != "RESOURCE_EXHAUSTED"
        assert allocate(20_000) == "RESOURCE_EXHAUSTED"
        for unit in UNITS:
            body = b'{"inputs": [' + unit * (BODY // len(unit)) + unit[:-1] + b"]}"
            requests = [("/v1/models/words:predict", body)] * 16
            statuses = {
                status for status, _ in pool.map(lambda s: server.get(*s), requests)
            }
            assert statuses <= {400, 429}
        assert list(response_of(repeated(1, 1000))["translation"].string_val) == [
            expected
        ]
        assert allocate(20) != "RESOURCE_EXHAUSTED"
        peak = peak_mb(server)
        assert server.stop() == 0
    print(f"\n{at_start:.0f} MB at the start, at most {peak:.0f}, allowed {budget}")
    assert peak < budget


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
