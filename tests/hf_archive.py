"""Writes small directories in the format of Hugging Face's Marian models."""

import io
import json

import numpy as np
import sentencepiece

LINES = {
    "source": ["a small house", "the old man sees a red boat", "two green birds sing"],
    "target": ["ein kleines Haus", "der alte Mann sieht ein Boot", "zwei Vögel singen"],
}
LANGUAGES = [">>fra<<", ">>deu<<"]


def sentencepiece_model(lines, model_type="unigram"):
    """Returns a SentencePiece model with the special ids of OPUS-MT."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=model_type,
        vocab_size=45,
        hard_vocab_limit=False,
        pad_id=-1,
        bos_id=-1,
        eos_id=0,
        unk_id=1,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.vocab_size())]


def safetensors(tensors):
    """Returns the content of a safetensors file."""
    dtypes = {"float32": "F32", "float16": "F16", "float64": "F64", "int64": "I64"}
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        content = tensor.tobytes()
        header[name] = {
            "dtype": dtypes.get(str(tensor.dtype), "BF16"),
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + data


def layer_tensors(prefix, d_model, d_ff, is_decoder, random):
    """Returns the tensors of a layer."""
    attentions = ["self_attn", *(["encoder_attn"] if is_decoder else [])]
    linear = {
        f"{name}.{part}_proj": (d_model, d_model)
        for name in attentions
        for part in ("q", "k", "v", "out")
    }
    linear |= {"fc1": (d_ff, d_model), "fc2": (d_model, d_ff)}
    tensors = {}
    for name, shape in linear.items():
        tensors[f"{prefix}.{name}.weight"] = random(*shape)
        tensors[f"{prefix}.{name}.bias"] = random(shape[0])
    for name in (*(f"{each}_layer_norm" for each in attentions), "final_layer_norm"):
        tensors[f"{prefix}.{name}.weight"] = 1 + random(d_model)
        tensors[f"{prefix}.{name}.bias"] = random(d_model)
    return tensors


def write_archive(
    directory, separate=False, dtype=np.float32, generation=None, tensors=None, **config
):
    """Writes a model with random weights.

    Args:
        directory: The directory to create.
        separate: Whether each side has a vocabulary and embeddings of its own.
        dtype: Dtype of the weights.
        generation: Values of generation_config.json besides the usual ones.
        tensors: Tensors to add, or None to remove them, by name.
        **config: Values of config.json besides the usual ones; None to remove one.

    Returns:
        The tensors by name.
    """
    directory.mkdir()
    models = {side: sentencepiece_model(lines) for side, lines in LINES.items()}
    vocabularies = [pieces_of(model) for model in models.values()]
    if not separate:
        joint = dict.fromkeys([*vocabularies[0], *vocabularies[1], *LANGUAGES])
        vocabularies = [list(joint)]
    for side, model in models.items():
        (directory / f"{side}.spm").write_bytes(model)
    vocabularies = [[*pieces, "<pad>"] for pieces in vocabularies]
    files = ["vocab.json", "target_vocab.json"]
    for name, pieces in zip(files, vocabularies, strict=False):
        ids = {piece: i for i, piece in enumerate(pieces)}
        (directory / name).write_text(json.dumps(ids))
    sizes = [len(pieces) for pieces in vocabularies]
    settings = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[-1],
        "share_encoder_decoder_embeddings": not separate,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 1,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "activation_function": "swish",
        "scale_embedding": True,
        "eos_token_id": 0,
        "pad_token_id": sizes[-1] - 1,
        "decoder_start_token_id": sizes[-1] - 1,
        "num_hidden_layers": 2,
        "use_cache": True,
        "bos_token_id": None,
        **config,
    }
    write_json(directory / "config.json", settings)
    write_json(
        directory / "generation_config.json",
        {
            "num_beams": 2,
            "max_length": 20,
            "bad_words_ids": [[sizes[-1] - 1]],
            "forced_eos_token_id": 0,
            "eos_token_id": 0,
            **(generation or {}),
        },
    )
    write_json(
        directory / "tokenizer_config.json",
        {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate},
    )
    rng = np.random.default_rng(0)

    def random(*shape):
        return rng.normal(0, 0.3, shape).astype(dtype)

    d_model, d_ff = settings["d_model"], settings["encoder_ffn_dim"]
    weights = {"final_logits_bias": random(1, sizes[-1])}
    sides = ["model.encoder.embed_tokens", "model.decoder.embed_tokens"]
    for name, size in zip(sides if separate else ["model.shared"], sizes, strict=True):
        weights[f"{name}.weight"] = random(size, d_model)
        weights[f"{name}.weight"][-1] = 0
    for side in ("encoder", "decoder"):
        for layer in range(settings[f"{side}_layers"]):
            weights |= layer_tensors(
                f"model.{side}.layers.{layer}",
                d_model,
                d_ff,
                side == "decoder",
                random,
            )
    weights |= tensors or {}
    weights = {name: tensor for name, tensor in weights.items() if tensor is not None}
    (directory / "model.safetensors").write_bytes(safetensors(weights))
    return weights


def write_json(path, values):
    """Writes a JSON object without the values that are None."""
    kept = {name: value for name, value in values.items() if value is not None}
    path.write_text(json.dumps(kept))
