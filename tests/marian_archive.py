"""Writes small models in the formats of Marian and Bergamot."""

import struct

import numpy as np
import yaml
from hf_archive import LINES, pieces_of, sentencepiece_model

BERGAMOT_INT8, MARIAN_INT8 = 0x4101, 0x10001


def options(sizes, **changes):
    """Returns the options that Marian stores in a model.

    Args:
        sizes: Numbers of source and target tokens.
        **changes: Other values, with `_` for `-` in the names.
    """
    values = {
        "type": "transformer",
        "version": "v1.12.0",
        "dim-emb": 16,
        "dim-vocabs": list(sizes),
        "enc-depth": 2,
        "dec-depth": 1,
        "enc-type": "bidirectional",
        "input-types": [],
        "right-left": False,
        "tied-embeddings": False,
        "tied-embeddings-src": False,
        "tied-embeddings-all": True,
        "output-omit-bias": False,
        "transformer-heads": 2,
        "transformer-dim-ffn": 24,
        "transformer-ffn-depth": 2,
        "transformer-ffn-activation": "relu",
        "transformer-decoder-autoreg": "self-attention",
        "dec-cell": "ssru",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
    }
    return {**values, **{n.replace("_", "-"): v for n, v in changes.items()}}


def random_tensors(settings, seed=0):
    """Returns tensors of the names and shapes that Marian has for these options."""
    rng = np.random.default_rng(seed)

    def random(*shape):
        return rng.normal(0, 0.4, shape).astype(np.float32)

    d, ff = settings["dim-emb"], settings["transformer-dim-ffn"]
    source, target = settings["dim-vocabs"]
    end = "_pre" if settings["transformer-preprocess"] else ""
    tensors = {"decoder_ff_logit_out_b": random(1, target)}

    def norm(name, end=end):
        tensors[f"{name}_ln_scale{end}"] = 1 + random(1, d)
        tensors[f"{name}_ln_bias{end}"] = random(1, d)

    def attention(name):
        for part in "qkvo":
            tensors[f"{name}_W{part}"] = random(d, d)
            tensors[f"{name}_b{part}"] = random(1, d)
        norm(f"{name}_Wo")

    if settings["tied-embeddings-all"] or settings["tied-embeddings-src"]:
        tensors["Wemb"] = random(target, d)
    else:
        tensors["encoder_Wemb"] = random(source, d)
        tensors["decoder_Wemb"] = random(target, d)
    if not (settings["tied-embeddings-all"] or settings["tied-embeddings"]):
        tensors["decoder_ff_logit_out_Wt"] = random(target, d)
    for side, depth in (("encoder", "enc-depth"), ("decoder", "dec-depth")):
        for layer in range(1, settings[depth] + 1):
            name = f"{side}_l{layer}"
            if side == "decoder" and settings["transformer-decoder-autoreg"] == "rnn":
                tensors[f"{name}_rnn_W"] = random(d, d)
                tensors[f"{name}_rnn_Wf"] = random(d, d)
                tensors[f"{name}_rnn_bf"] = random(1, d)
                norm(f"{name}_rnn_ffn")
            else:
                attention(f"{name}_self")
            if side == "decoder":
                attention(f"{name}_context")
            for part, shape in (("1", (d, ff)), ("2", (ff, d))):
                tensors[f"{name}_ffn_W{part}"] = random(*shape)
                tensors[f"{name}_ffn_b{part}"] = random(1, shape[1])
            norm(f"{name}_ffn_ffn")
        if settings["transformer-preprocess"]:
            norm(f"{side}_top", end="")
    return tensors


def write_vocabularies(directory, is_shared):
    """Writes SentencePiece models.

    Returns:
        The names of the files of both sides, and their sizes.
    """
    sides = ["vocab", "vocab"] if is_shared else ["srcvocab", "trgvocab"]
    lines = [LINES["source"] + LINES["target"]] * 2 if is_shared else [*LINES.values()]
    names, sizes = [], []
    for side, text in zip(sides, lines, strict=True):
        model = sentencepiece_model(text)
        names.append(f"{side}.ende.spm")
        sizes.append(len(pieces_of(model)))
        (directory / names[-1]).write_bytes(model)
    return names, sizes


def write_table(path, pieces):
    """Writes a vocabulary as Marian does, which is not always valid YAML."""
    quoted = {":": '":"', "#": '"#"', '"': '"\\""', "'": '"\'"'}
    lines = [f"{quoted.get(piece, piece)}: {i}\n" for i, piece in enumerate(pieces)]
    path.write_text("".join(lines))


def write_npz(directory, names, settings, tensors, decoder=None):
    """Writes a Marian archive with its decoder configuration."""
    stored = np.frombuffer(yaml.safe_dump(settings).encode() + b"\0", np.int8)
    np.savez(directory / "model.npz", **tensors, **{"special:model.yml": stored})
    decoder = {
        "relative-paths": True,
        "models": ["model.npz"],
        "vocabs": names,
        "beam-size": 3,
        "normalize": 1,
        "word-penalty": 0,
        **(decoder or {}),
    }
    (directory / "decoder.yml").write_text(yaml.safe_dump(decoder))


def quantize(array, name):
    """Returns a matrix as 8-bit integers and the value that they stand for."""
    scale = np.float32(127 / np.abs(array).max())
    integers = np.rint(array * scale).astype(np.int8)
    stored = integers if name.endswith("Wemb") else integers.T
    return stored.tobytes() + scale.tobytes(), integers.astype(np.float32) / scale


def binary(settings, tensors, int8_type=None):
    """Returns the content of a binary file, and the values of its tensors.

    Args:
        settings: The model's options.
        tensors: The tensors by name.
        int8_type: Type of quantized matrices. Default: all are stored as float32.
    """
    text = yaml.safe_dump(settings).encode() + b"\0"
    items, values = [("special:model.yml", 0x101, (len(text),), text)], {}
    for name, array in tensors.items():
        values[name] = array
        is_matrix = array.shape[0] > 1
        if int8_type and is_matrix:
            data, values[name] = quantize(array, name)
            items.append((name, int8_type, array.shape, data))
            alpha = np.float32(3).tobytes()
            items.append((f"{name}_QuantMultA", 0x404, (1, 1), alpha))
        else:
            items.append((name, 0x404, array.shape, array.tobytes()))
    items = [(n, kind, s, data + bytes(-len(data) % 256)) for n, kind, s, data in items]
    content = struct.pack("<QQ", 1, len(items))
    for name, kind, shape, data in items:
        content += struct.pack("<4Q", len(name) + 1, kind, len(shape), len(data))
    content += b"".join(name.encode() + b"\0" for name, *_ in items)
    for _, _, shape, _ in items:
        content += struct.pack(f"<{len(shape)}i", *shape)
    gap = -(len(content) + 8) % 256
    content += struct.pack("<Q", gap) + bytes(gap)
    return content + b"".join(data for *_, data in items), values
