"""Trained models translate 1,000 sentences in CTranslate2 as t2t-translate does."""

import json
import sys

import command
import ctranslate2
import numpy as np
import pytest
import sacrebleu
import sentencepiece
from card_program import run_card

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data"
    command.stage(
        "prepare",
        "--corpus=cldr",
        "--cldr_pairs=20000",
        "--vocab_size=2000",
        f"--data_dir={path}",
        extras=["cldr"],
    )
    return path


@pytest.fixture(
    scope="module",
    params=[("pre_norm", "tie_output"), ("nopre_norm", "notie_output")],
    ids=["pre-norm tied", "post-norm untied"],
)
def model_dir(request, data_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    command.stage(
        "train",
        f"--data_dir={data_dir}",
        f"--model_dir={path}",
        "--preset=tiny",
        "--num_layers=2",
        "--d_model=64",
        "--d_ff=128",
        "--train_steps=400",
        *(f"--{flag}" for flag in request.param),
    )
    return path


def export(model_dir, path, *flags):
    command.stage(
        "export",
        f"--model_dir={model_dir}",
        f"--export_dir={path}",
        "--format=ctranslate2",
        *flags,
        extras=["convert"],
    )
    return path


def share_of_equal(found, expected):
    return np.mean([a == b for a, b in zip(found, expected, strict=True)])


def test_exported_model_translates_as_t2t_translate(model_dir, tmp_path):
    text = (model_dir / "test.source.txt").read_text(encoding="utf-8")
    references = (model_dir / "test.target.txt").read_text(encoding="utf-8")
    assert text.count("\n") == 1000
    ours = {}
    for beam_size in (1, 4):
        flags = (
            f"--beam_size={beam_size}",
            "--length_penalty=1",
            "--length_penalty_beta=0",
            "--early_stopping=first",
        )
        printed = command.stage(
            "translate",
            f"--model_dir={model_dir}",
            *flags,
            "--print_scores",
            stdin=text.encode(),
        )
        rows = [line.split("\t") for line in printed.stdout.splitlines()]
        scores, ours[beam_size] = zip(*rows, strict=True)
        path = export(model_dir, tmp_path / f"float32-{beam_size}", *flags)
        theirs = run_card(path, text)
        assert share_of_equal(theirs, ours[beam_size]) >= 0.995
        check_scores(path, text, ours[beam_size], np.array(scores, np.float32))

    path = export(model_dir, tmp_path / "int8", "--beam_size=1", "--weights_dtype=int8")
    exact, rounded = (
        sacrebleu.corpus_bleu(lines, [references.splitlines()]).score
        for lines in (ours[1], run_card(path, text))
    )
    assert abs(exact - rounded) <= 0.3


def check_scores(path, text, translations, scores):
    """Compares the scores of equal translations."""
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(path / f"{side}.spm"))
        for side in ("source", "target")
    )
    results = ctranslate2.Translator(str(path)).translate_batch(
        [source.id_to_piece(ids) for ids in source.encode(text.splitlines())],
        return_scores=True,
        **json.loads((path / "config.json").read_text())["translation_options"],
    )
    texts = [
        target.decode(target.piece_to_id(result.hypotheses[0])) for result in results
    ]
    is_equal = [a == b for a, b in zip(texts, translations, strict=True)]
    found = np.array([result.scores[0] for result in results])
    np.testing.assert_allclose(found[is_equal], scores[is_equal], atol=1e-3)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
