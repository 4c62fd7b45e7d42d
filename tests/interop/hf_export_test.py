"""Exports to Hugging Face's format: files, the way back, and refused models."""

import json
import re
import sys

import command
import numpy as np
import pytest
import tensorflow as tf
from exported import LINES

from t2t_keras import Transformer
from t2t_keras.config import TransformerConfig
from t2t_keras.data.subwords import (
    SentencePieceTokenizer,
    UnigramTokenizer,
    WordPieceTokenizer,
)
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
from t2t_keras.interop.formats import read_model
from t2t_keras.interop.hf_export import export_hugging_face, generation_config
from t2t_keras.interop.hf_tensors import dimension_order
from t2t_keras.interop.imported_model import ImportedModel, Origin, write_model_dir
from t2t_keras.interop.safetensors_file import read_safetensors
from t2t_keras.model_dir import ModelDir

SHARED = SentencePieceTokenizer.train(LINES, 40)
OTHER = UnigramTokenizer.train([line.upper() for line in LINES], 30)
SOURCE = UnigramTokenizer.train(LINES, 40)
SENTENCES = ["a dog 7", "no 12 the", "the dog the dog 39 no no", ""]
SIZES = {"num_layers": 2, "num_decoder_layers": 1, "d_model": 16, "d_ff": 24}
EVERYTHING = {"attention_bias": True, "logits_bias": True, "tie_output": False}
CASES = {
    "post-norm": {},
    "post-norm separate": {"share_embeddings": False, "activation": "swish"},
    "post-norm untied": {**EVERYTHING, "activation": "quick_gelu"},
    "pre-norm": {"pre_norm": True, "position": "sinusoidal_concat"},
    "pre-norm separate": {"pre_norm": True, "share_embeddings": False, **EVERYTHING},
}


def make_model_dir(path, tokenizers=None, **fields):
    """Writes a model directory with random weights, as an import does."""
    if tokenizers is None:
        tokenizers = TokenizerPair(SHARED, SHARED)
        if not fields.get("share_embeddings", True):
            tokenizers = TokenizerPair(SOURCE, OTHER)
    config = TransformerConfig(
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
        **{**SIZES, "num_heads": 4, **fields},
    )
    rng = np.random.default_rng(0)
    arrays = {
        v.path: rng.normal(v.path.endswith("gamma"), 0.3, v.shape).astype(np.float32)
        for v in Transformer(config).trainable_variables
    }
    origin = Origin("test", "random", "en", "no")
    write_model_dir(ImportedModel(config, arrays, tokenizers, {}, origin), path)
    return ModelDir(path)


def in_order(path, array, order):
    """Returns an array of a model with its d_model dimensions in another order."""
    is_output = re.search(r"attention/output_projection|feed_forward/outer", path)
    if path.endswith(("/gamma", "/beta")) or is_output:
        return array[order]
    if path.endswith("/bias"):
        return array
    return array[:, order]


@pytest.mark.parametrize("case", CASES)
def test_import_of_an_export_restores_the_weights_bit_by_bit(case, tmp_path):
    model_dir = make_model_dir(tmp_path / "model", **CASES[case])
    export_hugging_face(model_dir, tmp_path / "export")
    write_model_dir(read_model(tmp_path / "export"), tmp_path / "back")
    back = ModelDir(tmp_path / "back")
    ours, theirs = (
        {v.path: v.numpy() for v in each.load_model().trainable_variables}
        for each in (model_dir, back)
    )
    order = dimension_order(model_dir.transformer_config)
    for path, array in ours.items():
        np.testing.assert_array_equal(theirs[path], in_order(path, array, order))
    # Hugging Face's attention layers always have biases.
    for path in theirs.keys() - ours.keys():
        assert path.endswith("/bias")
        assert not theirs[path].any()
    options = SearchOptions(beam_size=2, max_extra_length=5)
    first, second = (
        [
            best.text
            for best, *_ in each.translator(options=options).translate(SENTENCES)
        ]
        for each in (model_dir, back)
    )
    assert first == second
    languages = [back.config["data"][f"{side}_lang"] for side in ("source", "target")]
    assert languages == ["en", "no"]


def test_marian_models_follow_the_conventions_of_opus_mt(tmp_path):
    model_dir = make_model_dir(tmp_path / "model")
    options = SearchOptions(beam_size=3, length_penalty_beta=0.0, disable_unk=True)
    export_hugging_face(model_dir, tmp_path / "export", options=options)
    export = tmp_path / "export"
    assert sorted(path.name for path in export.iterdir()) == [
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "source.spm",
        "target.spm",
        "tokenizer_config.json",
        "vocab.json",
    ]
    config = json.loads((export / "config.json").read_text())
    last = SHARED.vocab_size
    assert config["architectures"] == ["MarianMTModel"]
    assert config["vocab_size"] == last + 1
    assert config["pad_token_id"] == config["decoder_start_token_id"] == last
    names = json.loads((export / "vocab.json").read_text())
    assert [*names.values()] == [*range(last + 1)]
    assert (names["<pad>"], names["</s>"], names["<unk>"]) == (last, 2, 3)
    generation = json.loads((export / "generation_config.json").read_text())
    assert generation["bad_words_ids"] == [[0], [1], [3]]
    assert (generation["num_beams"], generation["length_penalty"]) == (3, 0.6)

    tensors = read_safetensors(export / "model.safetensors")
    assert not tensors["model.shared.weight"][last].any()
    assert tensors["final_logits_bias"][0, last] < -1000
    assert tensors["model.encoder.layers.1.self_attn.k_proj.weight"].shape == (16, 16)
    # The decoder starts with the embedding of <s> and the sinusoids of position 0.
    start = model_dir.load_model().target_embedding(tf.constant([1]))[0].numpy()
    found = tensors["model.decoder.embed_positions.weight"]
    np.testing.assert_allclose(found[0, :8], start[::2], rtol=1e-6)
    np.testing.assert_allclose(found[0, 8:], start[1::2] + 1, rtol=1e-6)
    np.testing.assert_allclose(found[3, :2], np.sin([3, 3 * 10000**-0.125]), rtol=1e-6)

    card = (export / "README.md").read_text()
    front = card.split("---\n")[1]
    assert 'language:\n- "en"\n- "no"\n' in front
    assert "pipeline_tag: translation" in front
    assert "license" not in front


def test_pegasus_models_pad_with_the_start_token(tmp_path):
    model_dir = make_model_dir(tmp_path / "model", pre_norm=True)
    export_hugging_face(model_dir, tmp_path / "export")
    config = json.loads((tmp_path / "export" / "config.json").read_text())
    assert config["architectures"] == ["PegasusForConditionalGeneration"]
    assert config["vocab_size"] == SHARED.vocab_size
    assert config["pad_token_id"] == config["decoder_start_token_id"] == 1
    tensors = read_safetensors(tmp_path / "export" / "model.safetensors")
    assert {"model.encoder.layer_norm.bias", "model.shared.weight"} <= tensors.keys()
    assert "lm_head.weight" not in tensors


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_are_stored_in_the_dtype(dtype, tmp_path):
    model_dir = make_model_dir(tmp_path / "model")
    export_hugging_face(model_dir, tmp_path / "export", weights_dtype=dtype)
    tensors = read_safetensors(tmp_path / "export" / "model.safetensors")
    assert str(tensors["model.shared.weight"].dtype) == dtype
    matrix = model_dir.load_model().target_embedding.embeddings.numpy()
    order = dimension_order(model_dir.transformer_config)
    np.testing.assert_allclose(
        tensors["model.shared.weight"][:-1].astype(np.float32),
        matrix[:, order],
        rtol=0.01,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"length_penalty": 0.5, "max_length": 512, "early_stopping": "never"}),
        ({"max_output_tokens": 99, "min_length": 2}, {"max_length": 100}),
        ({"min_length": 2}, {"min_length": 3}),
        ({"no_repeat_ngram": 3}, {"no_repeat_ngram_size": 3}),
        ({"early_stopping": "heuristic"}, {"early_stopping": False}),
        ({"early_stopping": "first"}, {"early_stopping": True}),
        ({"force_end": True}, {"forced_eos_token_id": 2}),
        ({"sample": True, "top_k": 7}, {"do_sample": True, "top_k": 7}),
    ],
)
def test_search_options_become_generation_settings(options, expected):
    found = generation_config(SearchOptions(**options), 40)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"decoder_autoregression": "ssru"},
        {"position": "learned"},
        {"position": "sinusoidal_marian"},
        {"attention_window": 4},
        {"d_k": 6},
        {"d_v": 6},
        {"norm_epsilon": 0.1},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_models_that_transformers_lacks_are_refused_by_name(fields, tmp_path):
    model_dir = make_model_dir(tmp_path / "model", **fields)
    ((name, value),) = fields.items()
    with pytest.raises(UserError, match=f"Received: {name}={value}"):
        export_hugging_face(model_dir, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_word_pieces_are_refused(tmp_path):
    words = WordPieceTokenizer.train(LINES, 40)
    model_dir = make_model_dir(tmp_path / "model", TokenizerPair(words, words))
    with pytest.raises(UserError, match="Received: subword=wordpiece"):
        export_hugging_face(model_dir, tmp_path / "export")


def test_rejected_and_failed_exports_leave_nothing_behind(tmp_path, monkeypatch):
    model_dir = make_model_dir(tmp_path / "model")
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    flags = (f"--model_dir={model_dir.path}", "--format=hf")
    for arguments, message in (
        ([f"--export_dir={full}"], "is not an empty directory"),
        ([f"--export_dir={tmp_path}/new", "--checkpoint=auto,imported"], "one model"),
        ([f"--export_dir={tmp_path}/new", "--weights_dtype=int8"], "--weights_dtype"),
        ([f"--export_dir={tmp_path}/new", "--version=3"], "--version"),
    ):
        assert message in command.stage("export", *flags, *arguments, status=2).stderr
    assert [path.name for path in full.iterdir()] == ["notes.txt"]

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("t2t_keras.interop.hf_export.write_tokenizer", fail)
    with pytest.raises(OSError, match="No space"):
        export_hugging_face(model_dir, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    monkeypatch.undo()

    done = command.stage("export", *flags, f"--export_dir={tmp_path}/new")
    assert re.search(r"Wrote .*/new: 0\.\d MB of float32 weights", done.stdout)
    assert (tmp_path / "new" / "config.json").is_file()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
