"""Decoding of CTranslate2, with random weights."""

import tempfile
from typing import Any

import common
import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec

sizes = common.decoding_sizes(__doc__)

draw = np.random.default_rng(0)
d, ff = sizes.d_model, sizes.d_ff


def fill_linear(linear: Any, rows: int, columns: int) -> None:
    """Draws weights as Glorot and Bengio (2010) do."""
    bound = (6 / (rows + columns)) ** 0.5
    linear.weight = draw.uniform(-bound, bound, [rows, columns]).astype(np.float32)


def fill_norm(norm: Any) -> None:
    """Sets the norm's gain to one."""
    norm.gamma, norm.beta = np.ones(d, np.float32), np.zeros(d, np.float32)


def fill_layer(layer: Any) -> None:
    """Fills attentions, their first kernels fused, and the feed-forward network."""
    fused = [(layer.self_attention, [3 * d, d])]
    if hasattr(layer, "attention"):
        fused.append((layer.attention, [d, 2 * d, d]))
    for attention, rows in fused:
        for linear, number in zip(attention.linear, rows, strict=True):
            fill_linear(linear, number, d)
        fill_norm(attention.layer_norm)
    fill_linear(layer.ffn.linear_0, ff, d)
    fill_linear(layer.ffn.linear_1, d, ff)
    fill_norm(layer.ffn.layer_norm)


spec = TransformerSpec.from_config(
    sizes.num_layers, sizes.num_heads, pre_norm=False, activation=0
)
for layer in [*spec.encoder.layer, *spec.decoder.layer]:
    fill_layer(layer)
table = spec.encoder.embeddings[0]
fill_linear(table, sizes.vocab_size, d)
spec.decoder.embeddings.weight = spec.decoder.projection.weight = table.weight
words = ["<blank>", "<s>", "</s>", *(f"w{i}" for i in range(3, sizes.vocab_size))]
spec.register_source_vocabulary(words)
spec.register_target_vocabulary(words)
spec.validate()
spec.optimize(quantization="int8" if sizes.precision == "int8" else None)
directory = tempfile.mkdtemp()
spec.save(directory)
translator = ctranslate2.Translator(
    directory,
    compute_type=sizes.precision,
    inter_threads=sizes.streams,
    intra_threads=sizes.threads,
)
ids = common.random_ids(sizes.sentences, sizes.length, sizes.vocab_size)
sentences = [[words[i] for i in row] for row in ids]


def decode() -> list[list[str]]:
    """Translates all sentences, in its own batches."""
    results = translator.translate_batch(
        sentences,
        max_batch_size=sizes.batch,
        beam_size=sizes.beam_size,
        length_penalty=0.6,
        min_decoding_length=sizes.output_length,
        max_decoding_length=sizes.output_length,
    )
    return [result.hypotheses[0] for result in results]


common.report_decoding(decode, sizes, version=ctranslate2.__version__)
