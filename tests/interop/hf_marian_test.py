"""Imports directories of Hugging Face's Marian models."""

import json
import math
import sys

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hf_archive import LINES, safetensors, sentencepiece_model, write_archive
from reference import multi_head

from t2t_keras.errors import UserError
from t2t_keras.interop.formats import FORMATS, read_model
from t2t_keras.interop.imported_model import write_model_dir
from t2t_keras.interop.sentencepiece_vocab import VocabularyOrder, rewrite_model
from t2t_keras.model_dir import ModelDir
from t2t_keras.pipelines import import_model

PREFIX = "transformer/decoder/layer_0"


def swish(x):
    return x / (1 + np.exp(-x))


class NumPyMarian:
    """An independent implementation of the model, on Hugging Face's tensors."""

    def __init__(self, tensors, heads=2, activation=swish, scale=True):
        self.tensors = {name: t.astype(np.float64) for name, t in tensors.items()}
        self.heads, self.activation, self.scale = heads, activation, scale

    def linear(self, name, x):
        tensors = self.tensors
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def attend(self, name, x, memory, causal=False):
        q, k, v = (
            self.linear(f"{name}.{part}_proj", each)
            for part, each in (("q", x), ("k", memory), ("v", memory))
        )
        found = multi_head(q, k, v, self.heads, causal)
        return self.linear(f"{name}.out_proj", found)

    def embed(self, side, ids):
        name = f"model.{side}.embed_tokens.weight"
        table = self.tensors.get(name, self.tensors.get("model.shared.weight"))
        d_model = table.shape[1]
        angles = np.arange(len(ids))[:, None] / 10000 ** (
            np.arange(0, d_model, 2) / d_model
        )
        positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        return table[ids] * (math.sqrt(d_model) if self.scale else 1) + positions

    def stack(self, side, ids, memory=None):
        x = self.embed(side, ids)
        for layer in range(1 + (side == "encoder")):
            name = f"model.{side}.layers.{layer}"
            found = self.attend(f"{name}.self_attn", x, x, side == "decoder")
            x = self.norm(f"{name}.self_attn_layer_norm", x + found)
            if memory is not None:
                found = self.attend(f"{name}.encoder_attn", x, memory)
                x = self.norm(f"{name}.encoder_attn_layer_norm", x + found)
            found = self.activation(self.linear(f"{name}.fc1", x))
            found = self.linear(f"{name}.fc2", found)
            x = self.norm(f"{name}.final_layer_norm", x + found)
        return x

    def logits(self, source, target):
        x = self.stack("decoder", target, self.stack("encoder", source))
        tied = self.tensors.get("model.decoder.embed_tokens.weight")
        tied = self.tensors["model.shared.weight"] if tied is None else tied
        output = self.tensors.get("lm_head.weight", tied)
        return x @ output.T + self.tensors["final_logits_bias"][0]


def imported(directory, tmp_path):
    """Imports a directory and returns the model directory."""
    model = read_model(directory)
    write_model_dir(model, tmp_path / "model")
    return ModelDir(tmp_path / "model")


def foreign_ids(directory, side, text):
    """Returns the ids of Hugging Face's tokenizer, with the end token."""
    name = "vocab.json"
    if side == "target" and (directory / "target_vocab.json").exists():
        name = "target_vocab.json"
    ids = json.loads((directory / name).read_text())
    spm = sentencepiece.SentencePieceProcessor(model_file=f"{directory}/{side}.spm")
    code = []
    if text.startswith(">>"):
        code, text = [text[:7]], text[7:]
    pieces = [*code, *spm.encode(text, out_type=str)]
    return [*(ids.get(piece, ids["<unk>"]) for piece in pieces), ids["</s>"]]


def own_ids(tokenizer, text):
    return [*tokenizer.tokenize(tf.constant([text])).to_list()[0], 2]


def change_config(directory, key, value):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))


CASES = {
    "shared": {},
    "separate": {"separate": True},
    "float16": {"dtype": np.float16},
    "bfloat16": {"dtype": tf.bfloat16.as_numpy_dtype},
    "relu": {"activation_function": "relu"},
    "unscaled": {"scale_embedding": False},
}


@pytest.mark.parametrize("case", CASES)
def test_imported_model_computes_the_logits_of_the_original(case, tmp_path):
    arguments = CASES[case]
    directory = tmp_path / "opus"
    tensors = write_archive(directory, **arguments)
    model_dir = imported(directory, tmp_path)
    source_text, target_text = "the old house", "ein kleiner Vogel sieht"
    tokenizers = model_dir.tokenizers
    source = own_ids(tokenizers.source, source_text)
    target = [1, *own_ids(tokenizers.target, target_text)]
    inputs = {"source": np.array([source]), "target": np.array([target])}
    logits = model_dir.load_model()(inputs)
    reference = NumPyMarian(
        tensors,
        activation=(lambda x: np.maximum(x, 0)) if case == "relu" else swish,
        scale=case != "unscaled",
    )
    their_source = foreign_ids(directory, "source", source_text)
    their_target = foreign_ids(directory, "target", target_text)
    start = json.loads((directory / "config.json").read_text())["pad_token_id"]
    expected = reference.logits(their_source, [start, *their_target])
    assert len(source) == len(their_source)
    # Ids 0 and 1 are not in the foreign vocabulary; the end token is id 0 there.
    np.testing.assert_allclose(
        logits[0, :, 2:], expected[:, : len(logits[0, 0]) - 2], atol=1e-5
    )
    assert model_dir.transformer_config.share_embeddings == (case != "separate")
    assert model_dir.transformer_config.tie_output == (case != "unscaled")


def test_output_matrix_of_its_own_is_kept(tmp_path):
    rng = np.random.default_rng(1)
    sizes = {}

    def write(name, **arguments):
        found = write_archive(tmp_path / name, **arguments)
        sizes["output"] = found["model.shared.weight"].shape
        return found

    write("tied")
    output = rng.normal(0, 0.3, sizes["output"]).astype(np.float32)
    tensors = write(
        "untied", tensors={"lm_head.weight": output}, tie_word_embeddings=False
    )
    model = read_model(tmp_path / "untied")
    assert not model.config.tie_output
    kernel = model.arrays["transformer/output_projection/kernel"]
    np.testing.assert_array_equal(kernel[4:], output[2:-1])
    # A copy of the embeddings is not another matrix.
    copied = {"lm_head.weight": tensors["model.shared.weight"]}
    write("copied", tensors=copied)
    assert read_model(tmp_path / "copied").config.tie_output


@pytest.mark.parametrize(
    "text",
    [
        "the old man sees two birds",
        "  a   small house ",
        ">>fra<< the old man",
        ">>xyz<< a red boat",
        "zoo qué",
        "the ö",
        "a ☃ b",
        "ein Vögel",
        "☃☃ Vö ö☃ öV",
        ">>fra<<the old man",
        "a >>fra<< boat",
        ">>fra<<",
        ">>fra<< >>deu<< boat",
    ],
)
def test_tokens_are_those_of_the_original(text, tmp_path):
    directory = tmp_path / "opus"
    write_archive(directory)
    tokenizer = read_model(directory).tokenizers.source
    theirs = [
        # <pad> is last there; </s> and <unk> are 0 and 1.
        number + 2
        for number in foreign_ids(directory, "source", text)
    ]
    assert own_ids(tokenizer, text) == theirs


def test_search_options_are_the_generation_settings(tmp_path):
    write_archive(
        tmp_path / "opus",
        generation={
            "num_beams": 6,
            "max_length": 512,
            "length_penalty": 0.8,
            "no_repeat_ngram_size": 3,
            "early_stopping": True,
            "min_length": 4,
            "bad_words_ids": [[1]],
        },
    )
    search = imported(tmp_path / "opus", tmp_path).search
    assert search == {
        "beam_size": 6,
        "length_penalty": 0.8,
        "length_penalty_beta": 0.0,
        "max_output_tokens": 511,
        "max_extra_length": 511,
        "min_length": 3,
        "no_repeat_ngram": 3,
        "early_stopping": "first",
        "force_end": True,
        "disable_unk": True,
    }


def test_generation_settings_of_old_directories_are_in_config_json(tmp_path):
    write_archive(tmp_path / "opus", num_beams=3, max_length=100)
    (tmp_path / "opus" / "generation_config.json").unlink()
    search = read_model(tmp_path / "opus").search
    assert (search["beam_size"], search["max_output_tokens"]) == (3, 99)


def test_sampling_settings_are_kept(tmp_path):
    generation = {"do_sample": True, "num_beams": 1, "top_p": 0.9, "temperature": 0.7}
    write_archive(tmp_path / "opus", generation=generation)
    search = read_model(tmp_path / "opus").search
    assert (search["sample"], search["temperature"]) == (True, 0.7)
    assert (search["top_k"], search["top_p"]) == (50, 0.9)  # 50 is their default.


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("repetition_penalty", 1.2),
        ("num_beam_groups", 2),
        ("bad_words_ids", [[5, 6]]),
        ("forced_eos_token_id", 5),
        ("forced_bos_token_id", 7),
        ("early_stopping", "soon"),
        ("num_beams", "4"),
        ("suppress_tokens", [3]),
        ("beam_width", 4),
        ("length_penalty", -1.0),
        ("length_penalty", 10**310),
        ("eos_token_id", 3),
    ],
)
def test_unsupported_generation_settings_are_named(setting, value, tmp_path):
    write_archive(tmp_path / "opus", generation={setting: value})
    with pytest.raises(UserError, match=setting):
        write_model_dir(read_model(tmp_path / "opus"), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("name", ["max_length", "max_new_tokens"])
def test_maximum_lengths_that_leave_no_token_are_refused(name, tmp_path):
    write_archive(tmp_path / "opus", generation={name: int(name == "max_length")})
    with pytest.raises(UserError, match=r"opus: max_extra_length .* at least 1"):
        write_model_dir(read_model(tmp_path / "opus"), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "t5"),
        ("model_type", None),
        ("architectures", ["MarianForCausalLM"]),
        ("activation_function", "gelu_new"),
        ("normalize_before", True),
        ("static_position_embeddings", False),
        ("decoder_ffn_dim", 32),
        ("decoder_attention_heads", 4),
        ("d_model", "16"),
        ("d_model", 10**310),
        ("encoder_layers", 0),
        ("scale_embedding", 1),
        ("dropout", 2.0),
        ("pad_token_id", 10_000),
        ("quantization_config", {"bits": 8}),
    ],
)
def test_unsupported_configuration_values_are_named(key, value, tmp_path):
    write_archive(tmp_path / "opus")
    change_config(tmp_path / "opus", key, value)
    with pytest.raises(UserError, match=key):
        read_model(tmp_path / "opus")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"model.encoder.layers.1.fc1.bias": None}, "encoder.layers.1.fc1.bias"),
        ({"model.encoder.layers.1.fc1.bias": np.zeros(3, "f")}, r"shape \(24,\)"),
        ({"model.encoder.layer_norm.weight": np.zeros(16, "f")}, "encoder.layer_norm"),
        ({"model.shared.weight": None}, "model.shared.weight"),
        ({"position_ids": np.zeros(3, np.int64)}, "I64"),
    ],
    ids=["missing", "shape", "superfluous", "no embeddings", "dtype"],
)
def test_tensors_that_do_not_fit_are_named(tensors, message, tmp_path):
    write_archive(tmp_path / "opus", tensors=tensors)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path / "opus")


def test_non_finite_weights_are_refused(tmp_path):
    bias = np.full(24, np.nan, np.float32)
    write_archive(tmp_path / "opus", tensors={"model.encoder.layers.1.fc1.bias": bias})
    with pytest.raises(UserError, match="non-finite"):
        write_model_dir(read_model(tmp_path / "opus"), tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-10],
        lambda content: content[:5],
        lambda content: b"",
        lambda content: (1 << 60).to_bytes(8, "little") + content[8:],
        lambda content: content[:8] + b"[" + content[9:],
        lambda content: content.replace(b'"shape": [16', b'"shape": [-1', 1),
        lambda content: content.replace(b'"shape": [16]', b'"shape": "16"', 1),
        lambda content: resized(content, [1] * 65 + [16]),
    ],
    ids=["end", "header", "empty", "huge header", "JSON", "negative", "text", "axes"],
)
def test_damaged_safetensors_files_are_refused(change, tmp_path):
    write_archive(tmp_path / "opus")
    path = tmp_path / "opus" / "model.safetensors"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match="damaged"):
        read_model(tmp_path / "opus")


def resized(content, shape):
    """Returns a safetensors file with another shape for the tensors of 16 numbers."""
    size = 8 + int.from_bytes(content[:8], "little")
    header = content[8:size].replace(b"[16]", json.dumps(shape).encode())
    return len(header).to_bytes(8, "little") + header + content[size:]


def test_dtypes_that_are_no_text_are_named(tmp_path):
    write_archive(tmp_path / "opus")
    path = tmp_path / "opus" / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"F32"', b'["F"]', 1))
    with pytest.raises(UserError, match="final_logits_bias"):
        read_model(tmp_path / "opus")


@pytest.mark.parametrize("token", ["", "a\0", "\ud800"], ids=ascii)
def test_tokens_that_sentencepiece_cannot_hold_are_refused(token, tmp_path):
    write_archive(tmp_path / "opus")
    path = tmp_path / "opus" / "vocab.json"
    vocabulary = json.loads(path.read_text())
    vocabulary[token] = vocabulary.pop(">>fra<<")
    path.write_text(json.dumps(vocabulary))
    with pytest.raises(UserError, match="token that is no text"):
        read_model(tmp_path / "opus")


@pytest.mark.parametrize("name", ["", "..", "../a", "a\0b", "\ud800", 3])
def test_names_in_the_index_of_weights_are_checked(name, tmp_path):
    write_archive(tmp_path / "opus")
    (tmp_path / "opus" / "model.safetensors").unlink()
    index = tmp_path / "opus" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(UserError, match="names of files in the same directory"):
        read_model(tmp_path / "opus")


def test_sizes_are_checked_before_memory_is_allocated(tmp_path):
    huge = {"d_model": 1 << 20, "vocab_size": 1 << 40, "encoder_layers": 1 << 30}
    for key, value in huge.items():
        directory = tmp_path / key
        write_archive(directory)
        change_config(directory, key, value)
        with pytest.raises(UserError, match="weights, but the configuration needs"):
            read_model(directory)


def test_weights_in_several_files(tmp_path):
    directory = tmp_path / "opus"
    tensors = write_archive(directory)
    expected = read_model(directory).arrays
    (directory / "model.safetensors").unlink()
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    parts = [dict(list(tensors.items())[i::2]) for i in range(2)]
    for name, part in zip(names, parts, strict=True):
        (directory / name).write_bytes(safetensors(part))
    index = {"weight_map": {k: n for n, p in zip(names, parts, strict=True) for k in p}}
    index_path = directory / "model.safetensors.index.json"
    index_path.write_text(json.dumps(index))
    found = read_model(directory).arrays
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    for outside in ("../other.safetensors", "/etc/passwd", 3):
        index["weight_map"]["model.shared.weight"] = outside
        index_path.write_text(json.dumps(index))
        with pytest.raises(UserError, match="same directory"):
            read_model(directory)


def test_pickled_weights_without_pytorch_say_how_to_convert_them(tmp_path):
    write_archive(tmp_path / "opus")
    (tmp_path / "opus" / "model.safetensors").rename(
        tmp_path / "opus" / "pytorch_model.bin"
    )
    with pytest.raises(UserError, match=r"weights_only=True.*'model\.safetensors'"):
        read_model(tmp_path / "opus")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", None, "cannot be read"),
        ("vocab.json", b"{", "damaged"),
        ("vocab.json", b"{}", "no tokens"),
        ("vocab.json", b'{"</s>": 0, "a": 1}', "<unk>"),
        ("vocab.json", b'{"</s>": 0, "<unk>": 1, "a": 1}', "same id"),
        ("vocab.json", b'{"</s>": 0, "<unk>": 99999}', "99999"),
        ("source.spm", None, "cannot be read"),
        ("source.spm", b"not a model", "damaged|no pieces"),
        ("target.spm", b"", "no pieces"),
        ("target.spm", b"\n\x03\n\x01\xff", "damaged"),
        ("config.json", b"[]", "no JSON object"),
        ("model.safetensors", None, "no weights"),
    ],
)
def test_missing_and_damaged_files_are_named(name, content, message, tmp_path):
    write_archive(tmp_path / "opus")
    path = tmp_path / "opus" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path / "opus")


def test_paths_without_a_model_are_refused(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_model(tmp_path / "none")
    with pytest.raises(UserError, match="no model of a known format"):
        read_model(tmp_path)
    with pytest.raises(UserError, match=r"config\.json"):
        read_model(tmp_path, "hf_marian")


def test_bpe_models_need_the_pieces_of_their_vocabulary(tmp_path):
    text = LINES["source"] * 3
    model = sentencepiece_model(text, "bpe")
    spm = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [spm.id_to_piece(i) for i in range(spm.vocab_size())]
    order = VocabularyOrder.of([*pieces, "<pad>"], 0, 1, len(pieces))
    tokenizer = rewrite_model(model, order, tmp_path / "spm")
    for line in text:
        assert own_ids(tokenizer, line)[:-1] == [i + 2 for i in spm.encode(line)]
    more = VocabularyOrder.of([*pieces, "new", "<pad>"], 0, 1, len(pieces) + 1)
    with pytest.raises(UserError, match="1 pieces that this BPE model lacks"):
        rewrite_model(model, more, tmp_path / "spm")
    with pytest.raises(UserError, match=r"unigram or bpe\. Received: word"):
        rewrite_model(sentencepiece_model(text, "word"), order, tmp_path / "spm")


def test_an_imported_model_is_found_by_name_and_by_default(tmp_path):
    write_archive(tmp_path / "opus")
    model_dir = imported(tmp_path / "opus", tmp_path)
    for checkpoint in ("auto", "imported"):
        loaded = model_dir.load(checkpoint)
        assert (loaded.weights, loaded.step) == ("imported.npz", None)
    with pytest.raises(UserError, match="no checkpoint"):
        model_dir.load("latest")


def test_a_model_directory_is_not_overwritten(tmp_path):
    write_archive(tmp_path / "opus")
    imported(tmp_path / "opus", tmp_path)
    with pytest.raises(UserError, match="not an empty directory"):
        write_model_dir(read_model(tmp_path / "opus"), tmp_path / "model")


def test_flag_offers_all_formats():
    # Another stage has a flag of this name, too.
    flags = import_model.FLAGS.flags_by_module_dict()[import_model.__name__]
    (values,) = (f.parser.enum_values for f in flags if f.name == "format")
    assert values == ["auto", *FORMATS]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
