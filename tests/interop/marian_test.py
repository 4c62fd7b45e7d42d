"""Imports Marian's archives and Bergamot's binary models."""

import io
import math
import struct
import sys
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import yaml
from hf_archive import LINES, pieces_of, sentencepiece_model
from marian_archive import (
    BERGAMOT_INT8,
    MARIAN_INT8,
    binary,
    options,
    random_tensors,
    write_npz,
    write_table,
    write_vocabularies,
)
from reference import multi_head

from t2t_keras.errors import UserError
from t2t_keras.interop.formats import read_model
from t2t_keras.interop.imported_model import write_model_dir
from t2t_keras.model_dir import ModelDir

SSRU = {"transformer_decoder_autoreg": "rnn"}
SEPARATE = {"tied_embeddings_all": False, "tied_embeddings": True}
PRE_NORM = {
    "transformer_preprocess": "n",
    "transformer_postprocess": "da",
    "transformer_postprocess_top": "n",
}
FORMS = {
    "plain": {},
    "ssru": {**SSRU, "transformer_ffn_activation": "swish"},
    "pre_norm": {**PRE_NORM, "transformer_ffn_activation": "gelu"},
    "separate": SEPARATE,
    "untied_ssru": {**SSRU, "tied_embeddings_all": False},
    "shared_inputs": {"tied_embeddings_all": False, "tied_embeddings_src": True},
}
ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "swish": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
}


class NumPyMarian:
    """An independent implementation of Marian's transformer, on its own tensors."""

    def __init__(self, settings, tensors):
        self.settings = settings
        self.tensors = {name: t.astype(np.float64) for name, t in tensors.items()}
        self.is_pre = bool(settings["transformer-preprocess"])

    def linear(self, name, end, x):
        bias = self.tensors.get(f"{name}_b{end}", 0)
        return x @ self.tensors[f"{name}_W{end}"] + bias

    def norm(self, name, x, end=""):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
        scale = self.tensors[f"{name}_ln_scale{end}"]
        return x * scale + self.tensors[f"{name}_ln_bias{end}"]

    def block(self, name, x, function):
        if self.is_pre:
            return x + function(self.norm(name, x, "_pre"))
        return self.norm(name, x + function(x))

    def attend(self, name, x, memory, causal):
        q, k, v = (
            self.linear(name, part, each)
            for part, each in (("q", x), ("k", memory), ("v", memory))
        )
        found = multi_head(q, k, v, self.settings["transformer-heads"], causal)
        return self.linear(name, "o", found)

    def recur(self, name, x):
        candidates = x @ self.tensors[f"{name}_W"]
        gates = 1 / (1 + np.exp(-self.linear(name, "f", x)))
        state, states = np.zeros(x.shape[1]), []
        for gate, candidate in zip(gates, candidates, strict=True):
            state = gate * state + (1 - gate) * candidate
            states.append(state)
        return np.maximum(np.array(states), 0)

    def feed_forward(self, name, x):
        activation = ACTIVATIONS[self.settings["transformer-ffn-activation"]]
        return self.linear(name, "2", activation(self.linear(name, "1", x)))

    def embed(self, side, ids):
        table = self.tensors.get("Wemb", self.tensors.get(f"{side}_Wemb"))
        half = table.shape[1] // 2
        # A target starts with a zero embedding.
        found = np.array([np.zeros(2 * half) if i < 0 else table[i] for i in ids])
        angles = np.arange(len(ids))[:, None] * 10000.0 ** (
            -np.arange(half) / (half - 1)
        )
        positions = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        return found * math.sqrt(2 * half) + positions

    def stack(self, side, ids, memory=None):
        x = self.embed(side, ids)
        for layer in range(1, self.settings[f"{side[:3]}-depth"] + 1):
            x = self.layer(f"{side}_l{layer}", x, memory)
        return self.norm(f"{side}_top", x) if self.is_pre else x

    def layer(self, name, x, memory):
        is_decoder = memory is not None
        if is_decoder and self.settings["transformer-decoder-autoreg"] == "rnn":
            x = self.block(f"{name}_rnn_ffn", x, lambda y: self.recur(f"{name}_rnn", y))
        else:
            x = self.block(
                f"{name}_self_Wo",
                x,
                lambda y: self.attend(f"{name}_self", y, y, is_decoder),
            )
        if is_decoder:
            x = self.block(
                f"{name}_context_Wo",
                x,
                lambda y: self.attend(f"{name}_context", y, memory, False),
            )
        return self.block(
            f"{name}_ffn_ffn", x, lambda y: self.feed_forward(f"{name}_ffn", y)
        )

    def logits(self, source, target):
        x = self.stack("decoder", target, self.stack("encoder", source))
        for name in ("decoder_ff_logit_out_Wt", "Wemb", "decoder_Wemb"):
            if name in self.tensors:
                return x @ self.tensors[name].T + self.tensors["decoder_ff_logit_out_b"]
        return x @ self.tensors["decoder_ff_logit_out_W"]


def write(directory, file, **changes):
    """Writes a model, as an archive or a binary file.

    Returns:
        What the independent implementation computes with its tensors.
    """
    directory.mkdir()
    is_shared = changes.get("tied_embeddings_all", True) or changes.get(
        "tied_embeddings_src", False
    )
    names, sizes = write_vocabularies(directory, is_shared)
    settings = options(sizes, **changes)
    tensors = random_tensors(settings)
    if file == "npz":
        write_npz(directory, names, settings, tensors)
    else:
        content, tensors = binary(settings, tensors, file)
        (directory / "model.ende.intgemm.bin").write_bytes(content)
        (directory / "lex.50.50.ende.s2t.bin").write_bytes(b"not a model")
    return NumPyMarian(settings, tensors)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("file", ["npz", None, BERGAMOT_INT8, MARIAN_INT8])
def test_imported_model_computes_the_same_logits(tmp_path, form, file):
    expected = write(tmp_path / "model", file, **FORMS[form])
    write_model_dir(read_model(tmp_path / "model"), tmp_path / "dir")
    directory = ModelDir(tmp_path / "dir")
    model = directory.load_model()
    origin = "marian" if file == "npz" else "bergamot"
    assert directory.config["data"]["corpus"] == f"{origin}:model"
    # Foreign ids: 0 is the end, 1 unknown; here, those are 2 and 3, after padding and
    # start. The other tokens have the same order.
    source, target = [5, 9, 3, 0], [-1, 4, 7, 6]
    inputs = {
        "source": tf.constant([[i + 2 for i in source] + [0]]),
        "target": tf.constant([[1, *(i + 2 for i in target[1:])]]),
    }
    found = model(inputs).numpy()[0]
    np.testing.assert_allclose(
        found[:, 2:], expected.logits(source, target), rtol=1e-4, atol=1e-4
    )


def test_search_options_follow_the_decoder_configuration(tmp_path):
    write(tmp_path / "npz", "npz")
    assert read_model(tmp_path / "npz").search == {
        "beam_size": 3,
        "length_penalty": 1.0,
        "length_penalty_beta": 0.0,
        "max_length_factor": 3.0,
        "max_extra_length": 1,
        "disable_unk": True,
    }
    write(tmp_path / "bin", None)
    (tmp_path / "bin" / "config.yml").write_text("bergamot-mode: native\nbeam-size: 2")
    assert read_model(tmp_path / "bin").search["beam_size"] == 2
    (tmp_path / "bin" / "config.yml").unlink()
    search = read_model(tmp_path / "bin").search
    assert search["beam_size"] == search["length_penalty"] == 1
    assert search["max_length_factor"] == 2
    assert read_model(tmp_path / "bin").origin[2:] == ("en", "de")


def test_tables_of_tokens_number_the_pieces_of_sentencepiece_models(tmp_path):
    write(tmp_path / "one", "npz")
    one = read_model(tmp_path / "one").tokenizers
    pieces = pieces_of(sentencepiece_model(LINES["source"] + LINES["target"]))
    # A line with quotes, one that is not valid YAML, and a key that spans two lines.
    extra = [":", "?", "'", "#", '"']
    table = [*pieces, *extra]
    directory = tmp_path / "two"
    directory.mkdir()
    write_table(directory / "opus.vocab.yml", table)
    text = (directory / "opus.vocab.yml").read_text()
    number = len(pieces)
    text = text.replace(f'":": {number}\n', f"? ':'\n: {number}\n")
    (directory / "opus.vocab.yml").write_text(text)
    for side in ("source", "target"):
        model = sentencepiece_model(LINES["source"] + LINES["target"])
        (directory / f"{side}.spm").write_bytes(model)
    settings = options([len(table)] * 2)
    names = ["opus.vocab.yml"] * 2
    write_npz(directory, names, settings, random_tensors(settings))
    two = read_model(directory).tokenizers
    assert two.source.pieces()[-5:] == extra
    for side in ("source", "target"):
        lines = tf.constant(LINES[side])
        first, second = (
            getattr(pair, side).tokenize(lines).to_list() for pair in (one, two)
        )
        assert first == second


def change(**values):
    def edit(directory, settings, tensors):
        settings.update({name.replace("_", "-"): v for name, v in values.items()})

    return edit


def remove(name):
    def edit(directory, settings, tensors):
        settings.pop(name, None)
        tensors.pop(name, None)

    return edit


def reshape(directory, settings, tensors):
    tensors["encoder_l1_ffn_W1"] = tensors["encoder_l1_ffn_W1"][:, :-1]


def add(directory, settings, tensors):
    tensors["encoder_emb_ln_scale_pre"] = np.ones((1, 16), np.float32)


def larger_vocabulary(directory, settings, tensors):
    (directory / "vocab.ende.spm").write_bytes(
        sentencepiece_model([*LINES["source"], "completely different words", "äöü ß"])
    )


REFUSED = {
    "type='s2s' is not supported": change(type="s2s"),
    "right-left=True": change(right_left=True),
    "transformer-decoder-autoreg='average-attention'": change(
        transformer_decoder_autoreg="average-attention"
    ),
    "dec-cell='gru'": change(transformer_decoder_autoreg="rnn", dec_cell="gru"),
    "transformer-ffn-activation='tanh'": change(transformer_ffn_activation="tanh"),
    "transformer-postprocess-emb='nd'": change(transformer_postprocess_emb="nd"),
    "transformer-preprocess='nd', transformer-postprocess='dan'": change(
        transformer_preprocess="nd"
    ),
    "transformer-train-position-embeddings=True": change(
        transformer_train_position_embeddings=True
    ),
    "transformer-tied-layers=[1, 1]": change(transformer_tied_layers=[1, 1]),
    "transformer-decoder-dim-ffn=48": change(transformer_decoder_dim_ffn=48),
    "brand-new-option=7": change(brand_new_option=7),
    "enc-depth must be a positive integer. Received: 'six'": change(enc_depth="six"),
    "dim-emb must be a positive integer. Received: -3": change(dim_emb=-3),
    "dim-vocabs must be two positive integers. Received: ['a', True]": change(
        dim_vocabs=["a", True], tied_embeddings_all=False
    ),
    "dim-vocabs must be two positive integers. Received: [0, 0]": change(
        dim_vocabs=[0, 0]
    ),
    "multiple of num_heads": change(transformer_heads=5),
    "the configuration needs at least": change(dim_emb=10**9),
    "their options lack type": remove("type"),
    "encoder_l1_ffn_W1 must have shape (16, 24). Received: shape (16, 23)": reshape,
    "decoder_l1_context_Wq must have shape (16, 16). Received: nothing": remove(
        "decoder_l1_context_Wq"
    ),
    "the tensors encoder_emb_ln_scale_pre are not supported": add,
    "they do not belong together": larger_vocabulary,
}


@pytest.mark.parametrize("file", ["npz", "bin"])
@pytest.mark.parametrize("message", REFUSED)
def test_unsupported_models_are_refused_by_name_and_value(tmp_path, message, file):
    names, sizes = write_vocabularies(tmp_path, True)
    settings = options(sizes)
    tensors = random_tensors(settings)
    if message.startswith("they do not belong"):
        settings["dim-vocabs"] = [sizes[0] - 5] * 2
        tensors["Wemb"] = tensors["Wemb"][:-5]
        tensors["decoder_ff_logit_out_b"] = tensors["decoder_ff_logit_out_b"][:, :-5]
    else:
        REFUSED[message](tmp_path, settings, tensors)
    if file == "npz":
        write_npz(tmp_path, names, settings, tensors)
    else:
        (tmp_path / "model.bin").write_bytes(binary(settings, tensors)[0])
    with pytest.raises(UserError) as refused:
        read_model(tmp_path)
    assert message.replace("their options", "its options") in str(
        refused.value
    ).replace("their options", "its options")
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"word-penalty": 0.5}, "word-penalty=0.5 is not supported"),
        ({"beam-size": "many"}, "beam-size='many' is not supported"),
        ({"normalize": math.nan}, "normalize=nan is not supported"),
        ({"allow-unk": "maybe"}, "allow-unk='maybe' is not supported"),
        ({"output-sampling": ["topk", "10"]}, "output-sampling="),
        ({"models": ["a.npz", "b.npz"]}, "models must be a list of 1 file names"),
        ({"models": ["../model.npz"]}, "must be files in the directory"),
        ({"models": ["/etc/passwd"]}, "must be files in the directory"),
        ({"models": ["a\0b"]}, "must be files in the directory"),
        ({"vocabs": ["", "\udfff"]}, "must be files in the directory"),
        ({"vocabs": ["none.spm", "none.spm"]}, "No such file"),
        ({"unheard-of": 1}, "unheard-of=1 is not supported"),
    ],
)
def test_decoder_configurations_that_cannot_be_followed_are_refused(
    tmp_path, values, message
):
    names, sizes = write_vocabularies(tmp_path, True)
    settings = options(sizes)
    write_npz(tmp_path, names, settings, random_tensors(settings), values)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("normalize: 2001-99-99", "not valid YAML"),
        (f"normalize: {'9' * 5000}", "not valid YAML"),
        ("normalize: !!bool maybe", "not valid YAML"),
        ("normalize: !!timestamp maybe", "not valid YAML"),
        (
            "normalize: 1\nbeam-size: 2\nnormalize: 0",
            "the key 'normalize' occurs twice",
        ),
        ("a: &a [x]\nb: [*a, *a]", "aliases in YAML are not supported"),
    ],
)
def test_damaged_decoder_configurations_are_refused(tmp_path, text, message):
    write(tmp_path / "npz", "npz")
    (tmp_path / "npz" / "decoder.yml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_model(tmp_path / "npz")


def npy(shape, dtype, size):
    """Returns a NumPy file with `size` bytes of data."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + bytes(size)


@pytest.mark.parametrize(
    "member",
    [
        b"no array",
        b"\x93NUMPY\x01\x00\x04\x00((((",
        npy((1 << 44,), "<f4", 4),
        npy((2,), "<U1", 8),
        npy((2,), "<c8", 16),
    ],
    ids=["bytes", "header", "huge", "text", "complex"],
)
def test_archives_with_other_content_than_numbers_are_refused(tmp_path, member):
    write(tmp_path / "npz", "npz")
    with zipfile.ZipFile(tmp_path / "npz" / "model.npz", "a") as archive:
        archive.writestr("a.npy", member)
    with pytest.raises(UserError, match="damaged or no archive"):
        read_model(tmp_path / "npz")


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (10, 97)])
def test_encrypted_and_unusually_compressed_archives_are_refused(
    tmp_path, offset, value
):
    write(tmp_path / "npz", "npz")
    path = tmp_path / "npz" / "model.npz"
    content = bytearray(path.read_bytes())
    # The fields of the first entry, in the directory and before the data.
    content[content.find(b"PK\1\2") + offset] = value
    content[content.find(b"PK\3\4") + offset - 2] = value
    path.write_bytes(content)
    with pytest.raises(UserError, match="damaged or no archive"):
        read_model(tmp_path / "npz")


def test_directories_and_broken_links_are_no_binary_models(tmp_path):
    write(tmp_path / "model", BERGAMOT_INT8)
    (tmp_path / "model" / "a.bin").mkdir()
    (tmp_path / "model" / "b.bin").symlink_to("nowhere")
    assert read_model(tmp_path / "model").origin.format == "bergamot"


def test_damaged_binary_files_are_refused(tmp_path):
    write(tmp_path / "model", BERGAMOT_INT8)
    (path,) = (tmp_path / "model").glob("model.*.bin")
    content = path.read_bytes()
    number = struct.unpack_from("<Q", content, 8)[0]
    cuts = [17, 200, 32 * number, len(content) // 2, len(content) - 300]
    damaged = [content[:size] for size in cuts]
    # Sizes of terabytes: of a name, of the shape, of the data, of the gap.
    for position in (16, 32, 40, 48):
        large = bytearray(content)
        struct.pack_into("<Q", large, position, 2**62)
        damaged.append(bytes(large))
    damaged += [content[:8] + struct.pack("<Q", 50_000) + content[16:]]
    for each in damaged:
        path.write_bytes(each)
        with pytest.raises(UserError, match=r"damaged|type"):
            read_model(path, "bergamot")
    packed = bytearray(content)
    position = 16 + 32 * next(
        i
        for i in range(number)
        if struct.unpack_from("<Q", content, 24 + 32 * i)[0] == BERGAMOT_INT8
    )
    struct.pack_into("<Q", packed, position + 8, 0x6101)
    path.write_bytes(packed)
    with pytest.raises(UserError, match=r"0x6101 of .* is not supported"):
        read_model(path)
    path.write_bytes(struct.pack("<QQ", 7, 1) + bytes(64))
    with pytest.raises(UserError, match="version: 7"):
        read_model(path, "bergamot")


def test_damaged_archives_are_refused(tmp_path):
    write(tmp_path / "model", "npz")
    path = tmp_path / "model" / "model.npz"
    content = path.read_bytes()
    for each in (content[: len(content) // 2], b"no archive", b""):
        path.write_bytes(each)
        with pytest.raises(UserError, match="damaged or no archive"):
            read_model(path.parent)
    names, sizes = write_vocabularies(path.parent, True)
    settings = options(sizes)
    tensors = random_tensors(settings)
    tensors["Wemb"] = np.array([object()])
    write_npz(path.parent, names, settings, tensors)
    with pytest.raises(UserError, match="damaged or no archive"):
        read_model(path.parent)
    np.savez_compressed(path, Wemb=np.zeros(10**8, np.int8))
    with pytest.raises(UserError, match="is refused: its content is"):
        read_model(path.parent)
    np.savez(path, **random_tensors(settings))
    with pytest.raises(UserError, match=r"does not contain the model's options"):
        read_model(path.parent)


def test_old_segmentations_are_refused_by_name(tmp_path):
    _, sizes = write_vocabularies(tmp_path, True)
    settings = options(sizes)
    (tmp_path / "source.bpe").write_text("#version: 0.2\n")
    write_table(tmp_path / "vocab.yml", ["</s>", "<unk>", "a"])
    write_npz(tmp_path, ["vocab.yml"] * 2, settings, random_tensors(settings))
    with pytest.raises(UserError, match=r"source\.spm. Received: source\.bpe of subw"):
        read_model(tmp_path)
    (tmp_path / "decoder.yml").write_text(yaml.safe_dump([1]))
    with pytest.raises(UserError, match="contains no settings"):
        read_model(tmp_path)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
