"""Models exported to CTranslate2 compute what ours compute."""

import json
import sys

import command
import ctranslate2
import numpy as np
import pytest
import tensorflow as tf
from card_program import run_card
from exported import LINES
from hf_archive import write_archive

from t2t_keras import Transformer
from t2t_keras.config import TransformerConfig
from t2t_keras.data.subwords import UnigramTokenizer, WordPieceTokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
from t2t_keras.interop.ctranslate2_export import export_ctranslate2
from t2t_keras.interop.formats import read_model
from t2t_keras.interop.imported_model import ImportedModel, Origin, write_model_dir
from t2t_keras.model_dir import ModelDir

SHARED = UnigramTokenizer.train(LINES, 40)
OTHER = UnigramTokenizer.train([line.upper() for line in LINES], 30)
SENTENCES = ["a dog 7", "no 12 the", "the dog the dog the dog 39 no no no"]
SIZES = {"num_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 4}
POST_NORM = {"share_embeddings": True}
PRE_NORM = {
    "pre_norm": True,
    "share_embeddings": False,
    "tie_output": False,
    "logits_bias": True,
    "attention_bias": True,
    "num_decoder_layers": 1,
    "norm_epsilon": 0.1,
    "activation": "swish",
    "position": "sinusoidal_concat",
}


def make_model_dir(path, tokenizers=None, scale=1.0, **fields):
    """Writes a model directory with random weights, as an import does."""
    if tokenizers is None:
        target = SHARED if fields.get("share_embeddings", True) else OTHER
        tokenizers = TokenizerPair(SHARED, target)
    config = TransformerConfig(
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
        **{**SIZES, **fields},
    )
    rng = np.random.default_rng(0)
    arrays = {
        v.path: rng.normal(v.path.endswith("gamma"), 0.3 * scale, v.shape).astype(
            np.float32
        )
        for v in Transformer(config).trainable_variables
    }
    imported = ImportedModel(config, arrays, tokenizers, {}, Origin("test", "random"))
    write_model_dir(imported, path)
    return ModelDir(path)


def pieces(tokenizer, sentences):
    """Returns the tokens of sentences as text."""
    names = tokenizer.pieces()
    ids = tokenizer.tokenize(tf.constant(sentences)).to_list()
    return [[names[i] for i in row] for row in ids]


@pytest.mark.parametrize(
    "fields",
    [
        POST_NORM,
        PRE_NORM,
        {**POST_NORM, "activation": "gelu", "position": "learned", "max_length": 6},
        {
            **PRE_NORM,
            "activation": "quick_gelu",
            "position": "sinusoidal_marian",
            "d_k": 6,
            "tie_output": True,
            "logits_bias": False,
        },
    ],
    ids=["post-norm", "pre-norm", "learned", "d_k"],
)
def test_exported_model_gives_the_same_scores_and_greedy_translations(fields, tmp_path):
    model_dir = make_model_dir(tmp_path / "model", **fields)
    export_ctranslate2(model_dir, tmp_path / "export", max_input_tokens=20)
    sides = model_dir.tokenizers
    source = pieces(sides.source, SENTENCES)
    translator = ctranslate2.Translator(str(tmp_path / "export"))

    targets = ["the 3", "dog a dog 25 no", "no no no no the the the 11"]
    if sides.target is not sides.source:
        targets = [text.upper() for text in targets]
    ours = model_dir.translator().score(SENTENCES, targets)
    theirs = translator.score_batch(source, pieces(sides.target, targets))
    for scored, result in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(
            result.log_probs, scored.details.token_scores, atol=1e-4
        )

    options = SearchOptions(beam_size=1, length_penalty=0.0, max_extra_length=5)
    ours = model_dir.translator(options=options).translate(SENTENCES)
    names = sides.target.pieces()
    for tokens, (best, *_) in zip(source, ours, strict=True):
        (found,) = translator.translate_batch(
            [tokens],
            beam_size=1,
            length_penalty=0,
            min_decoding_length=0,
            max_decoding_length=len(tokens) + 6,
            return_scores=True,
        )
        ids = [[names.index(piece) for piece in found.hypotheses[0]]]
        text = sides.target.detokenize(tf.ragged.constant(ids, tf.int32))
        assert text.numpy()[0].decode() == best.text
        np.testing.assert_allclose(found.scores[0], best.score, atol=1e-3)


def test_table_of_positions_ends_after_the_longest_sentences(tmp_path):
    model_dir = make_model_dir(tmp_path / "model")
    options = SearchOptions(max_extra_length=3)
    export_ctranslate2(
        model_dir, tmp_path / "export", options=options, max_input_tokens=12
    )
    translator = ctranslate2.Translator(str(tmp_path / "export"))
    config = json.loads((tmp_path / "export" / "config.json").read_text())
    assert config["translation_options"]["max_input_length"] == 13
    source = pieces(model_dir.tokenizers.source, ["dog " * 40])
    for length in (12 + 3, 16):
        arguments = config["translation_options"] | {"min_decoding_length": length}
        (found,) = translator.translate_batch(
            source, max_decoding_length=length, **arguments
        )
        assert len(found.hypotheses[0]) == length
    with pytest.raises(RuntimeError, match="No position encodings are defined"):
        translator.translate_batch(
            source, max_decoding_length=17, **arguments | {"min_decoding_length": 17}
        )


@pytest.mark.parametrize(
    "options",
    [{"force_end": True}, {"max_output_tokens": 14}, {"max_length_factor": 1.5}],
)
def test_program_in_the_card_cuts_long_sentences_as_t2t_translate(options, tmp_path):
    model_dir = make_model_dir(tmp_path / "model")
    options = SearchOptions(
        beam_size=1, max_extra_length=5, no_repeat_ngram=3, **options
    )
    export_ctranslate2(
        model_dir, tmp_path / "export", options=options, max_input_tokens=12
    )
    lines = ["", "a\tdog\x01 7", "no \u6f22\u5b57 </s>", "dog " * 20, "the", *SENTENCES]
    translator = model_dir.translator(options=options, max_input_tokens=12)
    expected = [best.text for best, *_ in translator.translate(lines)]
    assert len(set(expected)) > 5
    assert run_card(tmp_path / "export", "\n".join([*lines, ""])) == expected


def test_program_in_the_card_looks_up_pieces_of_an_imported_vocabulary(tmp_path):
    write_archive(tmp_path / "opus")
    write_model_dir(read_model(tmp_path / "opus"), tmp_path / "model")
    options = SearchOptions(beam_size=1, max_extra_length=5, no_repeat_ngram=2)
    model_dir = ModelDir(tmp_path / "model")
    export_ctranslate2(model_dir, tmp_path / "export", options=options)
    lines = [
        *(">>fra<< the old man", ">>deu<<the old man", ">>xyz<< the old man"),
        *("a >>fra<< boat", "ein V\xf6gel", "", " </s> the </s>", "the red house"),
    ]
    expected = model_dir.translator(options=options)(lines)
    assert len(set(expected)) > 5
    assert run_card(tmp_path / "export", "\n".join([*lines, ""])) == expected


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_smaller_weights_are_stored_and_give_similar_scores(dtype, tmp_path):
    model_dir = make_model_dir(tmp_path / "model", d_model=64, d_ff=128)
    sizes = [
        export_ctranslate2(
            model_dir, tmp_path / each, weights_dtype=each, max_input_tokens=20
        )
        for each in ("float32", dtype)
    ]
    assert sizes[1] < sizes[0] * {"float16": 0.6, "int8": 0.4}[dtype]
    source = pieces(model_dir.tokenizers.source, SENTENCES)
    full, small = (
        ctranslate2.Translator(str(tmp_path / each)).score_batch(source, source)
        for each in ("float32", dtype)
    )
    for expected, found in zip(full, small, strict=True):
        np.testing.assert_allclose(found.log_probs, expected.log_probs, atol=1.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"decoder_autoregression": "ssru"}, "decoder_autoregression=ssru"),
        ({"attention_window": 3}, "attention_window=3"),
        ({"d_k": 4, "d_v": 6}, "d_v=6, d_k=4"),
    ],
)
def test_model_that_cannot_be_represented_is_rejected(fields, message, tmp_path):
    model_dir = make_model_dir(tmp_path / "model", **fields)
    with pytest.raises(UserError, match=message):
        export_ctranslate2(model_dir, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_weights_too_large_for_float16_are_rejected(tmp_path):
    model_dir = make_model_dir(tmp_path / "model", scale=1e6)
    with pytest.raises(UserError, match="too large for float16; use float32"):
        export_ctranslate2(model_dir, tmp_path / "export", weights_dtype="float16")
    assert not (tmp_path / "export").exists()


def test_rejected_flags_leave_nothing_behind(tmp_path):
    make_model_dir(tmp_path / "model")
    wordpiece = WordPieceTokenizer.train(LINES, 40)
    make_model_dir(tmp_path / "words", TokenizerPair(wordpiece, wordpiece))
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    new = f"--export_dir={tmp_path}/export"
    for model, arguments, message in (
        ("model", [new, "--version=3"], "--version applies only to --format=saved_"),
        ("model", [new, "--nokeras_file"], "--keras_file applies only to"),
        ("model", [new, "--weights_dtype=bfloat16"], "float32, float16, int16, int8 w"),
        ("model", [new, "--checkpoint=auto,imported"], "one model, not an ensemble"),
        ("model", [f"--export_dir={full}"], "is not an empty directory"),
        ("words", [new], "needs a SentencePiece vocabulary"),
    ):
        failed = command.stage(
            "export",
            f"--model_dir={tmp_path}/{model}",
            "--format=ctranslate2",
            *arguments,
            status=2,
            extras=["convert"],
        )
        assert message in failed.stderr
        assert failed.stderr.count("\n") == 1
    failed = command.stage(
        "export",
        f"--model_dir={tmp_path}/model",
        new,
        "--weights_dtype=int8",
        status=2,
    )
    assert "--weights_dtype must be one of float32, bfloat16, float16" in failed.stderr
    failed = command.stage(
        "export",
        f"--model_dir={tmp_path}/model",
        new,
        "--format=ctranslate2",
        status=2,
        extras=[],
    )
    assert failed.stderr == (
        "error: Export to CTranslate2 needs packages that are not installed "
        "(ctranslate2). Install them: pip install 't2t_keras[convert]'\n"
    )
    assert [path.name for path in full.iterdir()] == ["notes.txt"]
    assert not (tmp_path / "export").exists()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
