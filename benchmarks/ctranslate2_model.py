"""A CTranslate2 Transformer of the measured size with random weights."""

import argparse
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import TransformerSpec


def save(
    sizes: argparse.Namespace,
    words: Sequence[str],
    directory: str,
    add_source_eos: bool = False,
) -> None:
    """Writes a model in a child process, to keep its memory out of the measurement.

    Args:
        sizes: Flags of `common.sizes`.
        words: The vocabulary.
        directory: The output directory.
        add_source_eos: Whether to append EOS to sources. Default False.
    """
    arguments = (sizes, words, directory, add_source_eos)
    process = multiprocessing.get_context("fork").Process(target=_save, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == 0, process.exitcode


def _save(
    sizes: argparse.Namespace,
    words: Sequence[str],
    directory: str,
    add_source_eos: bool,
) -> None:
    draw = np.random.default_rng(0)
    d, ff = sizes.d_model, sizes.d_ff

    def fill_linear(linear: Any, rows: int, columns: int) -> None:
        # Glorot uniform initialization (Glorot and Bengio, 2010).
        bound = (6 / (rows + columns)) ** 0.5
        linear.weight = draw.uniform(-bound, bound, [rows, columns]).astype(np.float32)

    def fill_norm(norm: Any) -> None:
        norm.gamma, norm.beta = np.ones(d, np.float32), np.zeros(d, np.float32)

    spec = TransformerSpec.from_config(
        sizes.num_layers, sizes.num_heads, pre_norm=False, activation=0
    )
    for layer in [*spec.encoder.layer, *spec.decoder.layer]:
        # The first kernels of an attention layer are fused.
        fused = [(layer.self_attention, [3 * d, d])]
        if hasattr(layer, "attention"):
            fused.append((layer.attention, [d, 2 * d, d]))
        for attention, rows in fused:
            for linear, number in zip(attention.linear, rows, strict=True):
                fill_linear(linear, number, d)
            fill_norm(attention.layer_norm)
        for linear, rows, columns in (
            (layer.ffn.linear_0, ff, d),
            (layer.ffn.linear_1, d, ff),
        ):
            fill_linear(linear, rows, columns)
            linear.bias = np.zeros(rows, np.float32)
        fill_norm(layer.ffn.layer_norm)
    table = spec.encoder.embeddings[0]
    fill_linear(table, len(words), d)
    spec.decoder.embeddings.weight = spec.decoder.projection.weight = table.weight
    spec.register_source_vocabulary(list(words))
    spec.register_target_vocabulary(list(words))
    spec.config.add_source_eos = add_source_eos
    spec.validate()
    spec.optimize(quantization="int8" if sizes.precision == "int8" else None)
    Path(directory).mkdir(exist_ok=True)
    spec.save(directory)
