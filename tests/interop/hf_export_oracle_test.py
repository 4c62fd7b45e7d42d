"""Models exported to Hugging Face's format, run by transformers and CTranslate2."""

import re
import subprocess
import sys

import command
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.options import SearchOptions
from t2t_keras.model_dir import ModelDir

pytestmark = pytest.mark.interop

MODELS = {
    "post-norm": ("--nopre_norm",),
    "post-norm with biases": (
        *("--nopre_norm", "--attention_bias", "--logits_bias", "--notie_output"),
        *("--activation=swish", "--position=sinusoidal_concat"),
    ),
    "pre-norm": ("--pre_norm",),
    "pre-norm with biases": (
        *("--pre_norm", "--attention_bias", "--logits_bias", "--noshare_embeddings"),
        "--activation=quick_gelu",
    ),
}
MAX_LENGTH = 70
GENERATE = {
    "greedy": {"num_beams": 1},
    "beam": {"num_beams": 4, "length_penalty": 1.0, "early_stopping": "never"},
}
SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "length_penalty": 1.0, "length_penalty_beta": 0.0},
}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Returns a directory with prepared data."""
    work = tmp_path_factory.mktemp("words")
    command.prepare_words(work, train=400, dev=200)
    return work


@pytest.fixture(scope="module", params=MODELS)
def case(request, words, oracle, tmp_path_factory):
    """Returns a trained model directory, its export, and the answers of the others."""
    work = tmp_path_factory.mktemp("export")
    command.stage(
        "train",
        f"--data_dir={words}/data",
        f"--model_dir={work}/model",
        *("--preset=tiny", "--num_layers=2", "--d_model=32", "--d_ff=64"),
        *("--num_heads=4", "--train_steps=250", "--batch_tokens=600"),
        *MODELS[request.param],
    )
    command.stage(
        "export",
        *(f"--model_dir={work}/model", f"--export_dir={work}/export", "--format=hf"),
    )
    sides = (command_lines(words, side) for side in range(2))
    texts, targets = sides
    # White space and the names of special tokens are text.
    texts = [*texts, " two  red ", "old </s> new", "<pad><s> big <unk>", "", "zoo"]
    targets = [*targets, "TWO RED", "OLD </s> NEW", "", "<s>", "ZOO"]
    answers = oracle(
        "export_oracle.py",
        work,
        {
            "directory": f"{work}/export",
            "saved": f"{work}/saved",
            "ctranslate2": f"{work}/ctranslate2",
            "texts": texts,
            "targets": targets,
            "max_length": MAX_LENGTH,
            "generate": GENERATE,
        },
    )
    return ModelDir(work / "model"), work / "export", texts, targets, answers


def command_lines(words, side):
    rows = (words / "dev.tsv").read_text().splitlines()
    return [row.split("\t")[side] for row in rows]


def token_ids(tokenizer, texts, start=()):
    found = tokenizer.tokenize(tf.constant(texts)).to_list()
    return [[*start, *ids, 2] for ids in found]


def padded(rows):
    return tf.ragged.constant(rows).to_tensor().numpy()


def test_tokens_and_logits_are_ours(case):
    model_dir, _, texts, targets, answers = case
    tokenizers = model_dir.tokenizers
    source = token_ids(tokenizers.source, texts)
    target = token_ids(tokenizers.target, targets, [1])
    mask = answers["source_mask"] == 1
    assert [
        row[kept].tolist() for row, kept in zip(answers["source"], mask, strict=True)
    ] == source
    for row, ids in zip(answers["target"], target, strict=True):
        # Their start token has another id.
        assert row[1 : len(ids)].tolist() == ids[1:]
    model = model_dir.load_model()
    logits = model({"source": padded(source), "target": padded(target)}).numpy()
    for ours, theirs, ids in zip(logits, answers["logits"], target, strict=True):
        np.testing.assert_allclose(
            theirs[: len(ids), : ours.shape[1]], ours[: len(ids)], atol=1e-4
        )


@pytest.mark.parametrize("search", SEARCHES)
def test_translations_are_ours(search, case):
    model_dir, _, texts, _, answers = case
    options = SearchOptions(
        **SEARCHES[search],
        max_output_tokens=MAX_LENGTH - 1,
        max_extra_length=MAX_LENGTH - 1,
    )
    found = model_dir.translator(options=options).translate(texts)
    ours = [best.text for best, *_ in found]
    assert len({*ours}) > 50
    kept = [i for i, text in enumerate(texts) if text]  # No translation of no text.
    names = [search, f"saved.{search}"]
    if search == "greedy":
        names.append("ctranslate2")
    for name in names:
        theirs = answers[name].tolist()
        assert [theirs[i] for i in kept] == [ours[i] for i in kept], name


def test_import_restores_the_translations(case, tmp_path):
    model_dir, export, texts, _, _ = case
    command.stage("import_model", f"--input={export}", f"--model_dir={tmp_path}/back")
    options = SearchOptions(beam_size=2)
    first, second = (
        [best.text for best, *_ in each.translator(options=options).translate(texts)]
        for each in (model_dir, ModelDir(tmp_path / "back"))
    )
    assert first == second


def test_program_of_the_model_card_runs(case, oracle):
    _, export, *_ = case
    card = (export / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    done = subprocess.run(
        [oracle.python.absolute(), "-c", program],
        cwd=export,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert re.fullmatch(r"\['.*', '.*'\]\n", done.stdout)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
