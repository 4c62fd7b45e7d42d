"""A real model in CTranslate2's format: Arabic names to Latin script.

OpenNMT trained it; it is among CTranslate2's own test data. It is not part of the
repository, so the test is skipped where it is missing.
"""

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.decoding.beam_search import search
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID

AREN = Path(__file__).parents[3] / "shared" / "facts" / "aren"
# Names of variables here and in the file, and parts of the other names.
NAMES = {
    "source_embedding/embeddings": "encoder/embeddings/weight",
    "target_embedding/embeddings": "decoder/embeddings/weight",
    "output_projection/kernel": "decoder/projection/weight",
    "output_projection/bias": "decoder/projection/bias",
}
PARTS = {
    "self_attention/query_key_value": "self_attention/linear_0",
    "self_attention/output_projection": "self_attention/linear_1",
    "self_attention_residual/norm": "self_attention/layer_norm",
    "cross_attention/query": "attention/linear_0",
    "cross_attention/key_value": "attention/linear_1",
    "cross_attention/output_projection": "attention/linear_2",
    "cross_attention_residual/norm": "attention/layer_norm",
    "feed_forward/inner": "ffn/linear_0",
    "feed_forward/outer": "ffn/linear_1",
    "feed_forward_residual/norm": "ffn/layer_norm",
    "final_norm": "layer_norm",
    "kernel": "weight",
}


def read_arrays(path):
    """Reads the float32 variables of a model file, version 2 of the format."""
    content = memoryview(path.read_bytes())
    offset = 0

    def numbers(form):
        nonlocal offset
        found = struct.unpack_from(f"<{form}", content, offset)
        offset += struct.calcsize(f"<{form}")
        return found

    def string():
        nonlocal offset
        (size,) = numbers("H")
        offset += size
        return bytes(content[offset - size : offset - 1]).decode()

    assert numbers("I") == (2,)
    assert string() == "TransformerBase"
    _, number = numbers("II")
    arrays = {}
    for _ in range(number):
        name = string()
        shape = numbers(f"{numbers('B')[0]}I")
        item_size, size = numbers("BI")
        assert item_size == 4
        arrays[name] = np.frombuffer(content, "<f4", size, offset).reshape(shape)
        offset += 4 * size
    assert offset == len(content)
    return arrays


def position_table(length, d_model):
    """Returns CTranslate2's sinusoids, whose first position is 1."""
    rates = 10000 ** -(np.arange(d_model // 2) / (d_model // 2 - 1))
    angles = np.arange(1, length + 1)[:, np.newaxis] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def build_model(arrays):
    """Returns our model with the weights of the file."""
    model = Transformer(
        source_vocab_size=len(arrays["encoder/embeddings/weight"]),
        target_vocab_size=len(arrays["decoder/embeddings/weight"]),
        share_embeddings=False,
        tie_output=False,
        logits_bias=True,
        num_layers=6,
        d_model=32,
        d_ff=128,
        num_heads=8,
        attention_bias=True,
        pre_norm=True,
        norm_epsilon=1e-5,
        position="learned",
        max_length=100,
    )
    used = set()
    for variable in model.trainable_variables:
        path = variable.path.removeprefix("transformer/")
        if path.endswith("_position/table"):
            variable.assign(position_table(100, 32))
            continue
        name = NAMES.get(path, path)
        for ours, theirs in PARTS.items():
            name = name.replace(ours, theirs)
        variable.assign(arrays[name])
        used.add(name)
    assert used == set(arrays)
    return model


def made_up_words(letters, number):
    """Returns words of Arabic letters, and the example of CTranslate2's own tests."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(number)]
    return ["آتزمون", *words]


@pytest.mark.skipif(not AREN.is_dir(), reason=f"{AREN} is missing")
@pytest.mark.parametrize("beam_size", [1, 4])
def test_model_gives_the_same_words_as_ctranslate2(beam_size):
    import ctranslate2

    vocabularies = [
        (AREN / f"{side}_vocabulary.txt").read_text(encoding="utf-8").split("\n")[:-1]
        for side in ("source", "target")
    ]
    source, target = vocabularies
    # This order of special tokens is also ours; "<unk>" comes last in both.
    assert source[PAD_ID] == "<blank>"
    assert (target[BOS_ID], target[EOS_ID]) == ("<s>", "</s>")
    letters = [letter for letter in source[3:] if letter.isalpha()]
    words = made_up_words(letters, 200)
    options = SearchOptions(
        beam_size=beam_size,
        length_penalty=1.0,
        length_penalty_beta=0.0,
        early_stopping="first",
    )
    # The source has no end token.
    ids = tf.ragged.constant([[source.index(c) for c in word] for word in words])
    model = build_model(read_arrays(AREN / "model.bin"))
    found = search(Ensemble([model]), tf.cast(ids.to_tensor(), tf.int32), options)
    ours = [
        "".join(target[i] for i in row if i not in (PAD_ID, EOS_ID))
        for row in found.ids[:, 0].numpy()
    ]
    translator = ctranslate2.Translator(str(AREN), compute_type="float32")
    results = translator.translate_batch(
        [list(word) for word in words],
        beam_size=beam_size,
        length_penalty=1.0,
        min_decoding_length=0,
        return_scores=True,
    )
    assert ours[0] == "atzmon"
    assert ours == ["".join(result.hypotheses[0]) for result in results]
    scores = [result.scores[0] for result in results]
    np.testing.assert_allclose(found.scores[:, 0], scores, atol=1e-3)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
