"""Presets: round trip through a directory, downloads from hubs, errors."""

import json
import shutil
import sys
from pathlib import Path

import exported
import huggingface_hub
import kagglehub
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
from huggingface_hub.errors import RemoteEntryNotFoundError, RepositoryNotFoundError

from t2t_keras import Translator, runtime
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
from t2t_keras.optional_packages import MissingExtra

FILES = [
    "config.json",
    "model.weights.h5",
    "translator.json",
    "assets/tokenizer/tokenizer.json",
    "assets/tokenizer/shared.model",
]


@pytest.fixture(scope="module")
def translator():
    return exported.translator(*exported.toy())


@pytest.fixture(scope="module")
def preset(translator, tmp_path_factory):
    directory = tmp_path_factory.mktemp("presets") / "toy"
    translator.save_to_preset(directory)
    return directory


@pytest.fixture(scope="module")
def reopened(preset):
    return Translator.from_preset(preset)


def test_reopened_preset_translates_as_before(translator, reopened):
    lines = [*exported.LINES[:12], "", "dog " * 30]
    assert reopened.translate(lines) == translator.translate(lines)
    assert reopened.options == exported.OPTIONS
    assert reopened.max_input_tokens == exported.MAX_INPUT_TOKENS


def test_preset_opens_inference_form_in_a_decoding_process(preset, monkeypatch):
    def biases_follow(**arguments):
        """Returns the types of the operations to whose results biases are added."""
        [model] = Translator.from_preset(preset, **arguments).models
        encode = tf.function(lambda: model.encode(tf.ones([1, 3], tf.int32)))
        operations = encode.get_concrete_function().graph.get_operations()
        return {op.inputs[0].op.type for op in operations if op.type == "BiasAdd"}

    name = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
    assert name in runtime.environment("decoding")
    monkeypatch.delenv(name, raising=False)
    assert biases_follow() == {"Reshape"}
    monkeypatch.setenv(name, "1")
    assert biases_follow() == {"MatMul"}
    assert biases_follow(frozen=False) == {"Reshape"}


def test_call_accepts_one_or_several_sentences(reopened):
    lines = exported.LINES[:3]
    expected = [row[0].text for row in reopened.translate(lines)]
    assert any(expected)
    assert reopened(lines) == expected
    assert [reopened(line) for line in lines] == expected
    assert reopened(iter(lines)) == expected
    assert reopened([]) == []


def test_preset_contains_only_the_documented_files(preset):
    found = {str(p.relative_to(preset)) for p in preset.rglob("*") if p.is_file()}
    assert found == {*FILES, "metadata.json"}


def test_separate_vocabularies_dtype_and_options_are_restored(tmp_path):
    model, shared = exported.toy(
        share_embeddings=False,
        tie_output=False,
        logits_bias=True,
        activation="quick_gelu",
        position="sinusoidal_concat",
        decoder_autoregression="ssru",
        dtype="mixed_bfloat16",
    )
    model.output_weights.bias.assign(np.linspace(-1, 1, shared.target.vocab_size))
    source, target = (
        shared.source.with_normalization(name) for name in ("identity", "nmt_nfkc")
    )
    before = exported.translator(model, TokenizerPair(source, target, shared=True))
    before.save_to_preset(tmp_path / "a")
    after = Translator.from_preset(tmp_path / "a")
    assert after.translate(exported.LINES[:4]) == before.translate(exported.LINES[:4])
    [model] = after.models
    assert model.dtype_policy.name == "mixed_bfloat16"
    greedy = SearchOptions(beam_size=1)
    other = Translator.from_preset(tmp_path / "a", greedy, "float32")
    [model] = other.models
    assert model.dtype_policy.name == "float32"
    assert other.options == greedy


@pytest.mark.parametrize(
    ("handle", "package", "function"),
    [
        ("hf://user/name", huggingface_hub, "hf_hub_download"),
        ("kaggle://user/name/keras/variant/2", kagglehub, "model_download"),
    ],
)
def test_preset_on_a_hub_is_downloaded_file_by_file(
    handle, package, function, preset, reopened, monkeypatch
):
    asked = []

    def fetch(repo_id, filename):
        asked.append((repo_id, filename))
        return str(preset / filename)

    monkeypatch.setattr(package, function, fetch)
    fetched = Translator.from_preset(handle)
    assert asked == [(handle.partition("://")[2], name) for name in FILES]
    assert fetched("the 7") == reopened("the 7")


def test_keras_hub_uploads_a_preset(preset, tmp_path, monkeypatch):
    uploaded = {}
    monkeypatch.setattr(
        huggingface_hub,
        "create_repo",
        lambda repo_id, exist_ok: huggingface_hub.RepoUrl(f"user/{repo_id}"),
    )
    monkeypatch.setattr(huggingface_hub, "file_exists", lambda **_: False)

    def upload(repo_id, folder_path):
        uploaded[repo_id] = {path.name for path in Path(folder_path).iterdir()}

    monkeypatch.setattr(huggingface_hub, "upload_folder", upload)
    copy = shutil.copytree(preset, tmp_path / "copy")
    keras_hub.upload_preset("hf://name", str(copy))
    assert uploaded["user/name"] == {
        *("README.md", "assets", "config.json", "metadata.json", "model.weights.h5"),
        "translator.json",
    }


def raising(error):
    def fetch(**_):
        raise error

    return fetch


@pytest.mark.parametrize(
    ("handle", "error", "message"),
    [
        ("no/such/place", None, "variant. Received: no/such/place"),
        ("ftp://user/name", None, "preset must be an existing directory, hf://user/"),
        ("hf://", None, "hf:// cannot be downloaded: Unexpected Hugging Face preset"),
        (
            "hf://a/b/c",
            None,
            "hf://a/b/c cannot be downloaded: Unexpected Hugging Face",
        ),
        ("kaggle://user/name", None, "cannot be downloaded: Unexpected Kaggle preset"),
        (
            "hf://user/absent",
            RepositoryNotFoundError.__new__(RepositoryNotFoundError, "404"),
            "hf://user/absent cannot be downloaded: RepositoryNotFoundError",
        ),
        (
            "hf://user/other",
            RemoteEntryNotFoundError.__new__(RemoteEntryNotFoundError, "404"),
            "hf://user/other is not a preset of a Translator: config.json is missing",
        ),
    ],
)
def test_wrong_handle_is_a_user_error_of_one_line(handle, error, message, monkeypatch):
    if error:
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", raising(error))
    with pytest.raises(UserError) as raised:
        Translator.from_preset(handle)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_lost_network_is_not_a_user_error(monkeypatch):
    lost = ConnectionError("lost")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", raising(lost))
    with pytest.raises(ConnectionError, match="lost"):
        Translator.from_preset("hf://user/name")


@pytest.mark.parametrize("scheme", ["hf", "kaggle"])
def test_missing_client_package_of_a_hub_is_named(scheme, monkeypatch):
    package = {"hf": "huggingface_hub", "kaggle": "kagglehub"}[scheme]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package}.*t2t_keras\[hub\]'$"):
        Translator.from_preset(f"{scheme}://user/name/keras/variant")


@pytest.mark.parametrize("name", FILES)
def test_missing_and_damaged_files_are_named(name, preset, tmp_path):
    copy = shutil.copytree(preset, tmp_path / "copy")
    (copy / name).write_bytes((copy / name).read_bytes()[:20])
    with pytest.raises(UserError, match="is damaged"):
        Translator.from_preset(copy)
    (copy / name).unlink()
    with pytest.raises(UserError, match=f"{name} is missing"):
        Translator.from_preset(copy)


def test_preset_of_another_class_is_rejected(preset, tmp_path):
    copy = shutil.copytree(preset, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    config["registered_name"] = "keras_hub>BertBackbone"
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="Received: a preset of keras_hub>Bert"):
        Translator.from_preset(copy)


def test_failed_save_leaves_no_files(translator, preset, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in preset.rglob("*")}
    with pytest.raises(UserError, match="not an empty directory"):
        translator.save_to_preset(preset)
    assert before == {path: path.stat().st_mtime_ns for path in preset.rglob("*")}
    model, tokenizers = exported.toy()
    with pytest.raises(UserError, match="Received: an ensemble of 2"):
        Translator([model, model], tokenizers).save_to_preset(tmp_path / "two")
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
