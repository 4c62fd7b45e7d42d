"""Tests of the stages as processes: flags, exit status, messages, output files."""

import json
import re
import shutil
import subprocess
import sys
import threading

import command
import numpy as np
import pytest

SIZES = ["--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"]
STEPS = ["--batch_tokens=128", "--checkpoint_steps=3", "--bleu_sentences=5"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Prepared data and a model trained for six steps."""
    work = tmp_path_factory.mktemp("work")
    command.prepare_words(work, train=200, dev=20, test=20)
    trained = train(work, "model", "--train_steps=6")
    for item in ("parameters", "non padding", "dev: accuracy", "Trained 6 steps"):
        assert item in trained.stderr
    # Training translates dev sentences and shows them beside their references.
    assert re.search(r"dev: .*bleu \d", trained.stderr)
    assert re.search(r"\n    => .*\n     = [A-Z ]+\n", trained.stderr)
    return work


def train(work, model, *arguments, status=0):
    return command.stage(
        "train",
        f"--data_dir={work}/data",
        f"--model_dir={work}/{model}",
        *SIZES,
        *STEPS,
        *arguments,
        status=status,
    )


def test_model_directory_has_all_that_later_stages_need(work, tmp_path):
    config = json.loads((work / "model" / "config.json").read_text())
    assert config["model"]["d_model"] == 16
    assert config["data"]["corpus"] == "text"
    # The model directory is self-contained: a copy works on its own.
    shutil.copytree(work / "model", tmp_path / "copy")
    command.stage("average", f"--model_dir={tmp_path}/copy")
    scores = command.stage("evaluate", f"--model_dir={tmp_path}/copy", "--split=dev")
    assert scores.stdout.startswith("bleu ")
    assert "averaged.npz" in scores.stderr
    assert re.search(r"20 of 20 sentences, [\d.]+ sentences/s", scores.stderr)
    record = json.loads((tmp_path / "copy" / "scores.dev.json").read_text())
    assert f"bleu {record['scores'][0]['value']:.2f} " in scores.stdout
    assert record["beam_size"] == 4
    written = (tmp_path / "copy" / "hypotheses.dev.txt").read_text()
    assert len(written.splitlines()) == 20


def test_resumed_training_matches_uninterrupted_training(work):
    train(work, "whole", "--train_steps=9", "--dropout=0.3")
    train(work, "halves", "--train_steps=6", "--dropout=0.3")
    second = train(work, "halves", "--train_steps=9", "--dropout=0.3")
    assert "Resuming after step 6" in second.stderr
    uninterrupted, resumed = (
        np.load(work / name / "checkpoints" / "weights-00000009.npz")
        for name in ("whole", "halves")
    )
    for name in uninterrupted.files:
        np.testing.assert_array_equal(uninterrupted[name], resumed[name])
    third = train(work, "halves", "--train_steps=9", "--dropout=0.3")
    assert "its budget is spent" in third.stderr


def test_read_text_trains_the_same_weights(work):
    train(work, "from_text", "--train_steps=6", "--read_text")
    one, other = (
        np.load(work / name / "checkpoints" / "weights-00000006.npz")
        for name in ("model", "from_text")
    )
    for name in one.files:
        np.testing.assert_array_equal(one[name], other[name])


def test_training_rejects_a_directory_with_another_model_or_vocabulary(work):
    rejected = train(work, "model", "--num_layers=2", status=2)
    assert "num_layers is 1 there and 2 here" in rejected.stderr
    command.stage(
        "prepare",
        "--corpus=text",
        "--vocab_size=50",
        f"--data_dir={work}/other",
        f"--train_source={work}/train.tsv",
    )
    rejected = command.stage(
        "train", f"--data_dir={work}/other", f"--model_dir={work}/model", status=2
    )
    assert "prepared with another vocabulary" in rejected.stderr
    assert f"--vocabulary_from={work}/model" in rejected.stderr
    shutil.rmtree(work / "other")
    command.stage(
        "prepare",
        "--corpus=text",
        f"--vocabulary_from={work}/model",
        f"--data_dir={work}/other",
        f"--train_source={work}/train.tsv",
    )
    first, second = (
        json.loads((work / name / "manifest.json").read_text())[
            "vocabulary_fingerprint"
        ]
        for name in ("data", "other")
    )
    assert first == second


def translate_interactively(model):
    """Sends a second line after the first translation. Returns both translations."""
    process = subprocess.Popen(
        [sys.executable, "-m", "t2t_keras.pipelines.translate", model, "--n_best=3"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    # Ends the test if the stage waits for the end of the input.
    kill_timer = threading.Timer(command.PATIENCE, process.kill)
    kill_timer.start()
    with process:
        process.stdin.write("red\n")
        process.stdin.flush()
        translations = process.stdout.readline()
        process.stdin.write("blue\n")
        process.stdin.close()
        translations += process.stdout.read()
    kill_timer.cancel()
    assert process.returncode == 0
    return translations


def test_translate_writes_one_line_per_input_in_order(work):
    lines = ["red one", "", "big old new", "\ufeff\x00tab\there\r", "red one"]
    model = f"--model_dir={work}/model"
    output = command.stage(
        "translate", model, stdin="\n".join(lines).encode() + b"\n"
    ).stdout
    out = output.split("\n")
    assert len(out) == 6
    assert out[1] == out[5] == ""
    assert out[0] == out[4]
    exact, rounded = (
        command.stage(
            *("translate", model, "--print_scores", "--beam_size=1", "--min_length=4"),
            f"--decode_precision={precision}",
            stdin=b"red\n",
        ).stdout
        for precision in ("float32", "bfloat16")
    )
    score = float(exact.split("\t")[0])
    assert score < 0
    # The score differs slightly because of rounding.
    assert score != float(rounded.split("\t")[0]) == pytest.approx(score, rel=0.05)
    rows = [line.split("\t") for line in translate_interactively(model).splitlines()]
    assert {row[0] for row in rows} == {"1", "2"}
    first = [float(score) for number, score, _ in rows if number == "1"]
    assert 1 < len(first) <= 3
    assert first == sorted(first, reverse=True)


def test_json_output_has_status_scores_and_tokens(work):
    model = f"--model_dir={work}/model"
    lines = ["red one", "", "blue " * 2000]
    shown = command.stage(
        "translate",
        model,
        "--output_format=json",
        "--n_best=2",
        stdin="\n".join(lines).encode() + b"\n",
    ).stdout
    entries = [json.loads(line) for line in shown.splitlines()]
    assert [entry["status"] for entry in entries] == ["ok", "empty", "too_long"]
    assert [entry["source"] for entry in entries] == lines
    best, second = entries[0]["hypotheses"]
    assert best["score"] >= second["score"]
    assert len(best["token_scores"]) == len(best["tokens"]) + 1
    plain = command.stage("translate", model, stdin=b"red one\n").stdout
    assert plain == best["text"] + "\n"


def test_prefixes_ensembles_sampling_and_scores(work, tmp_path):
    model = f"--model_dir={work}/model"
    prefixed = command.stage(
        "translate", model, "--with_prefix", stdin=b"red one\tBLUE\nred\n"
    ).stdout
    assert prefixed.startswith("BLUE")
    ensemble = ["--checkpoint=3,6", "--no_repeat_ngram=2", "--min_length=2"]
    command.stage("translate", model, *ensemble, stdin=b"red one\n")
    sampling_flags = ["--sample", "--beam_size=3", "--n_best=3", "--temperature=2"]
    first, second, other = (
        command.stage(
            "translate", model, *sampling_flags, f"--sample_seed={seed}", stdin=b"red\n"
        ).stdout
        for seed in (1, 1, 2)
    )
    assert first == second != other
    (tmp_path / "a").write_text("red one\n\nblue\n")
    (tmp_path / "b").write_text("RED ONE\n\nBLUE\n")
    scored = command.stage(
        "score", model, f"--input={tmp_path}/a", f"--translations={tmp_path}/b"
    )
    first, empty, last = (line.split("\t") for line in scored.stdout.splitlines())
    assert empty == ["", "", "empty"]
    for total, token_scores in (first, last):
        found = sum(map(float, token_scores.split()))
        assert float(total) == pytest.approx(found, abs=1e-2)
        assert float(total) < 0
    assert "pairs 3" in scored.stderr
    assert "perplexity" in scored.stderr
    # The other source of each sentence is the other sentence.
    (tmp_path / "other").write_text("blue\n\nred one\n")
    given_other, contrastive = (
        command.stage(
            "score", model, f"--translations={tmp_path}/b", *score_flags
        ).stdout.splitlines()
        for score_flags in (
            [f"--input={tmp_path}/other"],
            [f"--input={tmp_path}/a", "--contrastive"],
        )
    )
    for own, other, found in zip(
        (first, last), given_other[::2], contrastive[::2], strict=True
    ):
        expected = float(own[0]) - float(other.split("\t")[0])
        assert float(found.split("\t")[0]) == pytest.approx(expected, abs=1e-3)
    assert contrastive[1] == "\t\tempty"
    (tmp_path / "b").write_text("RED ONE\n")
    rejected = command.stage(
        "score",
        model,
        f"--input={tmp_path}/a",
        f"--translations={tmp_path}/b",
        status=2,
    )
    assert f"{tmp_path}/a:2: this line has no counterpart" in rejected.stderr


@pytest.mark.parametrize(
    ("prepare_flags", "train_flags"),
    [
        (["--subword=unigram", "--noshare_vocabulary"], ["--jit", "--pad_to_boundary"]),
        (
            ["--subword=wordpiece", "--vocab_size=50"],
            ["--precision=mixed_bfloat16", "--early_stop_patience=1", "--clip_norm=1"],
        ),
    ],
)
def test_vocabulary_kinds_and_training_options_run_end_to_end(
    work, tmp_path, prepare_flags, train_flags
):
    files = [f"--{split}_source={work}/{split}.tsv" for split in ("train", "dev")]
    data_dir, model_dir = f"--data_dir={tmp_path}/data", f"--model_dir={tmp_path}/model"
    command.stage(
        "prepare", "--corpus=text", "--vocab_size=60", data_dir, *files, *prepare_flags
    )
    trained = command.stage(
        "train", data_dir, model_dir, *SIZES, *STEPS, "--train_steps=6", *train_flags
    )
    assert re.search(r"step \d|dev: accuracy", trained.stderr)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    separate = "--noshare_vocabulary" in prepare_flags
    assert config["model"]["share_embeddings"] is not separate
    command.stage("average", model_dir)
    shown = command.stage("translate", model_dir, stdin=b"red one\nblue\n").stdout
    assert len(shown.splitlines()) == 2
    if separate:
        rejected = command.stage(
            "train",
            data_dir,
            f"--model_dir={tmp_path}/none",
            "--share_embeddings",
            status=2,
        )
        assert "--share_embeddings needs a shared vocabulary" in rejected.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--label_smoothing=1"], "label_smoothing must be below 1"),
        (["--clip_norm=0"], "clip_norm must be positive"),
        (["--clip_norm=nan"], "clip_norm must be a number"),
        (["--seed=-1"], "--seed=-1: -1 is not a non-negative integer"),
        (["--r_drop=0"], "r_drop must be positive"),
        (
            ["--train_minutes=0"],
            "A training needs at least one limit, and limits must be positive",
        ),
        (["--profile_steps=10"], "profile_steps must be the first and the last step"),
        (["--ema_decay=1"], "ema_decay must be between 0 and 1"),
        (["--init_from=/no/such"], "/no/such holds no model (config.json)"),
        (["--strategy=tpu"], "No TPU"),
        (["--strategy=multi_worker"], "needs the addresses of the workers"),
        (
            [
                "--early_stop_patience=1",
                "--early_stop_metric=val_bleu",
                "--bleu_sentences=0",
            ],
            "--early_stop_metric=val_bleu needs --bleu_sentences",
        ),
    ],
)
def test_invalid_training_flags_create_no_model_directory(
    work, tmp_path, arguments, message
):
    rejected = command.stage(
        "train",
        f"--data_dir={work}/data",
        f"--model_dir={tmp_path}/model",
        *SIZES,
        *arguments,
        status=2,
    )
    assert message in rejected.stderr
    assert not list(tmp_path.iterdir())


def test_data_directory_is_rejected_as_model_directory(work):
    before = sorted((work / "data").iterdir())
    data = f"--data_dir={work}/data"
    rejected = command.stage("train", data, f"--model_dir={work}/data", status=2)
    assert "must not be the data directory" in rejected.stderr
    assert sorted((work / "data").iterdir()) == before


def test_training_rejects_text_changed_since_preparation(work, tmp_path):
    source = tmp_path / "train.tsv"
    shutil.copyfile(work / "train.tsv", source)
    arguments = [f"--data_dir={tmp_path}/data", "--vocab_size=60"]
    command.stage("prepare", "--corpus=text", f"--train_source={source}", *arguments)
    with source.open("a") as file:
        file.write("red\tRED\n")
    rejected = command.stage(
        "train",
        *arguments[:1],
        f"--model_dir={tmp_path}/model",
        "--read_text",
        status=2,
    )
    assert "has changed: it has {'pairs': 201" in rejected.stderr
    rejected = command.stage(
        "train",
        *arguments[:1],
        f"--model_dir={tmp_path}/model",
        "--early_stop_patience=1",
        status=2,
    )
    assert "--early_stop_patience needs a dev split" in rejected.stderr


VISUALIZE = ["--model_dir=m", "--source_text=a"]


@pytest.mark.parametrize(
    ("name", "arguments", "status", "message"),
    [
        ("translate", [], 2, "--model_dir must be given"),
        ("translate", ["--model_dir=/no/such"], 2, "/no/such holds no model"),
        ("train", ["--data_dir=/no", "--model_dir=x"], 2, "/no holds no prepared data"),
        ("train", ["--d_model=wide"], 2, "--d_model"),
        ("average", ["--model_dir=/no/such"], 2, "/no/such holds no model"),
        ("evaluate", [], 2, "Give either --model_dir or --hypothesis."),
        (
            "evaluate",
            ["--hypothesis=/no/a", "--reference=/no/b"],
            2,
            "No such file: /no/a",
        ),
        (
            "evaluate",
            ["--hypothesis=a", "--reference=b", "--model_dir=m", "--beam_size=2"],
            2,
            "Remove --model_dir, --beam_size.",
        ),
        (
            "evaluate",
            ["--model_dir=m", "--target_lang=fr"],
            2,
            "--target_lang needs --hypothesis",
        ),
        ("visualize", ["--output_dir=/dev/null", *VISUALIZE], 2, "/dev/null is a file"),
        ("translate", ["--bream_size=3"], 2, "bream_size"),
        ("launch", [], 2, "Give the flags of t2t-train after --"),
        (
            "launch",
            ["--", "--workers=a:1"],
            2,
            "sets --workers and --worker_index itself",
        ),
        ("translate", ["stray", "--model_dir=x"], 2, "Unexpected arguments: stray"),
    ],
)
def test_user_errors_are_named_without_a_traceback(name, arguments, status, message):
    assert message in command.stage(name, *arguments, status=status).stderr


def test_missing_or_unaligned_input_is_named(work):
    failed = command.stage(
        "translate", f"--model_dir={work}/model", "--checkpoint=77", status=2
    )
    assert "weights-00000077.npz" in failed.stderr
    unequal = command.stage(
        "evaluate",
        f"--model_dir={work}/model",
        f"--source={work}/train.tsv",
        f"--reference={work}/dev.tsv",
        status=2,
    )
    assert (
        f"{work}/train.tsv has 200 lines, but {work}/dev.tsv has 20" in unequal.stderr
    )


_AVERAGE_DURING_DECODING = """
import sys
from t2t_keras.decoding.translator import Translator
from t2t_keras.model_dir import ModelDir
from t2t_keras.pipelines import evaluate
decode = Translator.translate
def average_and_decode(self, *arguments):
    ModelDir(sys.argv[1].partition("=")[2]).average(2)
    return decode(self, *arguments)
Translator.translate = average_and_decode
evaluate.run()
"""


def test_scores_record_the_weights_that_were_loaded(work, tmp_path):
    shutil.copytree(work / "model", tmp_path / "model")
    arguments = [f"--model_dir={tmp_path}/model", "--split=dev", "--checkpoint=6,auto"]
    subprocess.run(
        [sys.executable, "-c", _AVERAGE_DURING_DECODING, *arguments], check=True
    )
    assert (tmp_path / "model" / "averaged.npz").exists()
    record = json.loads((tmp_path / "model" / "scores.dev.json").read_text())
    assert record["weights"] == ["weights-00000006.npz"] * 2
    assert record["steps"] == [6, 6]


def test_evaluate_reports_errors_before_decoding(work, tmp_path):
    shutil.copytree(work / "model", tmp_path / "model")
    dev_flags = [f"--model_dir={tmp_path}/model", "--split=dev"]
    short = tmp_path / "short.txt"
    short.write_text("RED\n")
    before = sorted((tmp_path / "model").iterdir())
    for flag, message in (
        (f"--baseline={short}", f"{short} has 1 line, but"),
        ("--baseline=/no/such", "/no/such"),
        ("--scores=bleu,meteor", "Received: meteor"),
    ):
        rejected = command.stage("evaluate", *dev_flags, flag, status=2)
        assert message in rejected.stderr
        assert rejected.stdout == ""
        assert sorted((tmp_path / "model").iterdir()) == before
    command.stage("evaluate", *dev_flags)
    record = (tmp_path / "model" / "scores.dev.json").read_text()
    # A file named like a split does not overwrite the scores of the split.
    (tmp_path / "dev.txt").write_text("red\n")
    input_flags = [f"--source={tmp_path}/dev.txt", f"--reference={short}", dev_flags[0]]
    command.stage("evaluate", *input_flags, f"--baseline={short}")
    assert (tmp_path / "model" / "scores.dev.json").read_text() == record
    found = json.loads((tmp_path / "model" / "scores.file.dev.json").read_text())
    assert found["source"] == f"{tmp_path}/dev.txt"
    assert [c["name"] for c in found["comparisons"]] == ["bleu", "chrf"]


@pytest.mark.parametrize(
    "name",
    ["prepare", "train", "launch", "average", "evaluate", "score", "translate"],
)
def test_help_shows_the_flags_of_the_stage(name):
    shown = command.stage(name, "--help").stdout
    assert f"t2t-{name}" in shown
    assert "_dir" in shown or name == "launch"


_PRINT_INTERACTIVE = """
from t2t_keras.pipelines.command_line import standard_streams
standard_streams.reopen_closed_streams()
print(standard_streams.is_interactive("-"))
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("< file", "False"),
        ("", "True"),
        (
            "<&-",
            "t2t_keras.errors.UserError: Standard input is closed: use --input=FILE.",
        ),
    ],
)
def test_standard_input_is_interactive_unless_it_is_a_file(source, expected, tmp_path):
    (tmp_path / "file").write_text("red\n")
    shell = [
        "sh",
        "-c",
        f'exec "$0" -c "$1" {source}',
        sys.executable,
        _PRINT_INTERACTIVE,
    ]
    # Standard input is a pipe unless the shell redirects it.
    finished = subprocess.run(
        shell, cwd=tmp_path, capture_output=True, input="", text=True
    )
    assert (finished.stdout + finished.stderr).splitlines()[-1] == expected


def test_visualize_writes_a_page_and_plots(work, tmp_path):
    model_dir = f"--model_dir={work}/model"
    flags = [model_dir, "--source_text=red <one> two", f"--output_dir={tmp_path}/drawn"]
    shown = command.stage("visualize", *flags)
    names = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert names == {"explorer.html"} | {
        f"{kind}.layer_1.{picture}.{ending}"
        for kind in ("encoder", "decoder", "cross")
        for picture in ("lines", "heat_maps")
        for ending in ("svg", "png")
    }
    translation = re.search("Translation: (.*)", shown.stderr)[1]
    page = (tmp_path / "drawn" / "explorer.html").read_text()
    assert json.dumps(translation) in page
    assert "<one>" not in page
    # With a given translation, and only the page.
    target_flags = [model_dir, "--source_text=red", f"--output_dir={tmp_path}/given"]
    command.stage("visualize", *target_flags, "--target_text=RED OLD", "--nopictures")
    assert [path.name for path in (tmp_path / "given").iterdir()] == ["explorer.html"]
    assert '"RED OLD"' in (tmp_path / "given" / "explorer.html").read_text()


def test_visualize_writes_nothing_on_user_errors(work, tmp_path):
    flags = [f"--model_dir={work}/model", f"--output_dir={tmp_path}/drawn"]
    empty = command.stage(
        "visualize", *flags, "--source_text=red", "--target_text= ", status=2
    )
    assert "The translation must have 1 to 128 tokens" in empty.stderr
    two = ["--source_text=red", "--checkpoint=3,6"]
    several = command.stage("visualize", *flags, *two, status=2)
    assert "--checkpoint=3,6" in several.stderr
    assert not (tmp_path / "drawn").exists()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
