"""Exports give the same results as Python, also in a process without this project."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import exported
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel as SavedModelProto

from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.translator import Translator
from t2t_keras.export.servable import TranslationServable
from t2t_keras.export.version_dirs import new_version, versions_of
from t2t_keras.export.warmup import read_warmup
from t2t_keras.server.saved_model import SavedModel
from t2t_keras.special_tokens import UNK_ID

SENTENCES = [*exported.LINES[:7], "", " \t", "dog " * 30, "\ufeffno\ufffd", "a\x00the"]

WITHOUT_PROJECT = """
import json, sys
import numpy as np
import tensorflow as tf
import tensorflow_text
path, sentences = sys.argv[1], json.loads(sys.argv[2])
text = np.array([s.encode() for s in sentences] + [b"\\xff\\xfe", b"no\\x80"], object)
plain = lambda x: x.decode() if isinstance(x, bytes) else x
to_json = lambda outputs: {n: list(map(plain, v.tolist())) for n, v in outputs.items()}
results = []
loaded = tf.saved_model.load(path).signatures["serving_default"](text=tf.constant(text))
results.append(to_json({name: value.numpy() for name, value in loaded.items()}))
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], path)
    signature = graph.signature_def["serving_default"]
    fetches = {name: info.name for name, info in signature.outputs.items()}
    results.append(to_json(session.run(fetches, {signature.inputs["text"].name: text})))
assert not any(name.partition(".")[0] == "t2t_keras" for name in sys.modules)
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def toy():
    return exported.toy()


@pytest.fixture(scope="module")
def version(toy, tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "1"
    exported.export(path, *toy)
    return path


@pytest.fixture(scope="module")
def saved_model(version):
    model = SavedModel(version)
    yield model
    model.close()


def strings(values):
    return np.array([v if isinstance(v, bytes) else v.encode() for v in values], object)


def run_signature(model, signature, **inputs):
    return model.run(signature, inputs, model.outputs_of(signature, ()))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"subword": "wordpiece", "decoder_autoregression": "ssru"}],
)
def test_export_matches_translator_in_process_without_this_project(arguments, tmp_path):
    model, tokenizers = exported.toy(**arguments)
    exported.export(tmp_path / "1", model, tokenizers)
    expected = exported.translator(model, tokenizers).translate(SENTENCES)
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_PROJECT, tmp_path / "1", json.dumps(SENTENCES)],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    for outputs in json.loads(process.stdout):
        assert outputs["translation"][:-2] == [best.text for best, *_ in expected]
        assert outputs["status"][:-2] == [best.status for best, *_ in expected]
        scores = [best.score or 0.0 for best, *_ in expected]
        np.testing.assert_allclose(outputs["score"][:-2], scores, rtol=1e-5, atol=1e-5)
        assert outputs["status"][-2:] == ["invalid_utf8"] * 2
        assert outputs["translation"][-2:] == ["", ""]
    assert len({best.text for best, *_ in expected}) > 4
    assert {best.status for best, *_ in expected} == {"ok", "empty", "too_long"}


def test_documented_saved_model_cli_command_runs(version):
    page = Path(__file__).parents[2] / "docs" / "serving.md"
    text = page.read_text(encoding="utf-8")
    (command,) = re.findall(r"(?m)^(python -c (?:.*\\\n)+.*)$", text)
    for documented, actual in (
        ("python", sys.executable),
        ("versions/translator/1", str(version)),
    ):
        assert command.count(documented) in (1, 2)
        command = command.replace(documented, actual, 1)
    process = subprocess.run(
        ["sh", "-c", command], capture_output=True, check=True, text=True
    )
    assert "Result for output key translation:" in process.stdout


def test_bad_rows_do_not_affect_others(saved_model):
    single = run_signature(saved_model, "serving_default", text=strings(["a dog 7"]))
    mixed = run_signature(
        saved_model,
        "serving_default",
        text=strings(["", b"\xff", "a dog 7", "dog " * 99, b"\xc3("]),
    )
    assert mixed["translation"][2] == single["translation"][0]
    np.testing.assert_allclose(mixed["score"][2], single["score"][0], rtol=1e-5)
    assert mixed["status"].tolist() == [
        b"empty",
        b"invalid_utf8",
        b"ok",
        b"too_long",
        b"invalid_utf8",
    ]
    untranslated = run_signature(saved_model, "n_best", text=strings(["", b"\xff"]))
    assert untranslated["translations"].tolist() == [[b"", b""]] * 2
    empty = run_signature(saved_model, "serving_default", text=np.zeros([0], object))
    assert empty["translation"].shape == (0,)


def test_n_best_is_sorted_and_starts_with_best(toy, saved_model):
    outputs = run_signature(saved_model, "n_best", text=strings(exported.LINES[:6]))
    assert outputs["translations"].shape == (6, 2)
    assert (outputs["scores"][:, 0] >= outputs["scores"][:, 1]).all()
    best = run_signature(
        saved_model, "serving_default", text=strings(exported.LINES[:6])
    )
    assert outputs["translations"][:, 0].tolist() == best["translation"].tolist()


def test_ids_signature_matches_text_signature(toy, saved_model):
    _, tokenizers = toy
    text = exported.LINES[:5]
    rows = [tokenizers.source.tokenize(tf.constant([t])).to_list()[0] for t in text]
    ids = np.zeros([7, max(map(len, rows))], np.int32)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
    ids[6, 0] = 10**6  # Outside the vocabulary.
    outputs = run_signature(saved_model, "ids", source_ids=ids)
    by_text = run_signature(saved_model, "serving_default", text=strings(text))
    np.testing.assert_allclose(outputs["score"][:5], by_text["score"], rtol=1e-5)
    assert outputs["status"].tolist() == [b"ok"] * 5 + [b"empty", b"invalid_ids"]
    texts = tokenizers.target.detokenize(
        tf.RaggedTensor.from_tensor(outputs["target_ids"], padding=0)
    )
    assert texts.numpy()[:5].tolist() == by_text["translation"].tolist()
    assert not outputs["target_ids"][5:].any()


def test_alignment_matches_translator(toy, saved_model):
    sources, targets = ["a dog 12", "", "no 3"], ["the 7 no", "the", "dog"]
    outputs = run_signature(
        saved_model, "align", text=strings(sources), translation=strings(targets)
    )
    details = exported.translator(*toy).details(sources, targets)
    for row in (0, 2):
        tokens = [token.decode() for token in outputs["target_tokens"][row] if token]
        assert tokens == details[row].tokens
        np.testing.assert_allclose(
            outputs["token_scores"][row, : len(tokens) + 1],
            details[row].token_scores,
            rtol=1e-4,
        )
        assert not outputs["token_scores"][row, len(tokens) + 1 :].any()
        target_words, source_words = outputs["target_words"], outputs["source_words"]
        for source_word, target_word in details[row].alignment:
            word_attention = outputs["attention"][row][target_words[row] == target_word]
            sums = [
                word_attention[:, source_words[row] == word].sum()
                for word in range(source_words[row].max() + 1)
            ]
            assert int(np.argmax(sums)) == source_word
    assert (outputs["source_words"][1] == -1).all()


def test_graph_checks_input_rank(version, tmp_path):
    """TensorFlow Serving does not check shapes: a wrong rank must not crash."""
    copy = shutil.copytree(version, tmp_path / "1")
    content = SavedModelProto.FromString((copy / "saved_model.pb").read_bytes())
    for node in content.meta_graphs[0].graph_def.node:
        if node.op == "Placeholder":
            node.attr["shape"].shape.unknown_rank = True
            del node.attr["shape"].shape.dim[:]
        node.attr.pop("_output_shapes", None)
    (copy / "saved_model.pb").write_bytes(content.SerializeToString())
    model = SavedModel(copy)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible with"):
        run_signature(model, "serving_default", text=np.array([["a", "b"]], object))
    assert (
        run_signature(model, "serving_default", text=strings(["no 3"]))["status"][0]
        == b"ok"
    )
    model.close()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_weights_halve_the_file_and_keep_the_computation(dtype, toy, tmp_path):
    sizes = {}
    for name in ("float32", dtype):
        exported.export(tmp_path / name, *toy, weights_dtype=name)
        (data,) = (tmp_path / name / "variables").glob("*.data*")
        sizes[name] = data.stat().st_size
    assert sizes[dtype] < 0.62 * sizes["float32"]  # Both contain the vocabulary.
    model = SavedModel(tmp_path / dtype)
    outputs = run_signature(model, "serving_default", text=strings(exported.LINES[:8]))
    model.close()
    model, tokenizers = toy
    rounded, _ = exported.toy()
    for variable in rounded.variables:
        variable.assign(tf.cast(tf.cast(variable.value, dtype), variable.dtype))
    expected = exported.translator(rounded, tokenizers).translate(exported.LINES[:8])
    np.testing.assert_allclose(
        outputs["score"], [best.score or 0.0 for best, *_ in expected], rtol=1e-5
    )


def test_weights_too_large_for_float16_are_rejected(tmp_path):
    model, tokenizers = exported.toy()
    model.trainable_variables[0].assign(
        np.full(model.trainable_variables[0].shape, 1e6)
    )
    with pytest.raises(ValueError, match="use bfloat16"):
        TranslationServable(
            [model], tokenizers, SearchOptions(), weights_dtype="float16"
        )


def test_ensemble_is_exported_as_one_model(toy, tmp_path):
    other, tokenizers = exported.toy(
        seed=3,
        tie_output=False,
        logits_bias=True,
        activation="quick_gelu",
        position="sinusoidal_marian",
        decoder_autoregression="ssru",
    )
    bias = np.random.default_rng(3).normal(size=tokenizers.target.vocab_size)
    bias[UNK_ID] = 20
    other.output_weights.bias.assign(bias)
    options = dataclasses.replace(
        exported.OPTIONS, disable_unk=True, length_penalty_beta=0.0
    )
    models = [toy[0], other]
    TranslationServable(models, tokenizers, options).save(tmp_path / "1")
    model = SavedModel(tmp_path / "1")
    lines, translations = exported.LINES[:6], exported.LINES[6:12]
    outputs = run_signature(model, "serving_default", text=strings(lines))
    pairs = {"text": strings(lines), "translation": strings(translations)}
    aligned = run_signature(model, "align", **pairs)
    model.close()
    ensemble = Translator(models, tokenizers, options, max_input_tokens=20)
    expected = ensemble.translate(lines)
    assert outputs["translation"].tolist() == [
        best.text.encode() for best, *_ in expected
    ]
    assert not any("\u2047" in best.text for best, *_ in expected)
    np.testing.assert_allclose(
        outputs["score"], [best.score or 0.0 for best, *_ in expected], rtol=1e-5
    )
    scored = ensemble.score(lines, translations)
    np.testing.assert_allclose(
        aligned["token_scores"].sum(axis=1),
        [sum(each.details.token_scores) for each in scored],
        rtol=1e-5,
    )


def test_sampling_depends_on_sentence_alone(toy, tmp_path):
    options = SearchOptions(beam_size=2, sample=True, max_extra_length=8)
    TranslationServable([toy[0]], toy[1], options).save(tmp_path / "1")
    model = SavedModel(tmp_path / "1")
    lines = exported.LINES[:6]
    forward = run_signature(model, "serving_default", text=strings(lines))[
        "translation"
    ]
    backward = run_signature(model, "serving_default", text=strings(lines[::-1]))[
        "translation"
    ]
    model.close()
    assert forward.tolist() == backward[::-1].tolist()


def test_warmup_requests_are_read_back(version):
    requests = list(read_warmup(version))
    assert [r.model_spec.signature_name for r in requests] == [
        "serving_default",
        "n_best",
    ]
    assert tf.make_ndarray(requests[0].inputs["text"]).tolist() == [
        line.encode() for line in exported.LINES[:2]
    ]
    assert list(read_warmup(version.parent)) == []
    damaged = version.parent / "2"
    path = damaged / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no record at all")
    with pytest.raises(ValueError, match="is damaged"):
        list(read_warmup(damaged))


def test_versions_are_created_atomically(tmp_path):
    base = tmp_path / "base"
    for name in ("7", "007x", ".exporting-1", "assets", "9" * 30):
        (base / name).mkdir(parents=True)
    (base / "9").write_text("a file is no version")
    assert list(versions_of(base)) == [7]
    with new_version(base) as path:
        (path / "saved_model.pb").write_text("x")
        assert list(versions_of(base)) == [7]
    assert list(versions_of(base)) == [7, 8]
    before = sorted(base.iterdir())
    with pytest.raises(OSError, match="No such"), new_version(base) as path:
        (path / "half" / "x").write_text("x")
    with (
        pytest.raises(ValueError, match="already has a version 7"),
        new_version(base, 7),
    ):
        pass
    assert sorted(base.iterdir()) == before
    with (
        pytest.raises(ValueError, match="cannot be written to"),
        new_version(base / "9"),
    ):
        pass


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
