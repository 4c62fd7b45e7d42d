"""Tests of t2t-variations: the rows of Table 3, trained, interrupted and resumed."""

import json
import shutil
import signal
import subprocess
import sys

import command
import pytest

from t2t_keras.config.paper_variations import VARIATIONS
from t2t_keras.config.presets import BASE, BIG, TINY, vary

STEPS = 450
"""Enough for more messages than a pipe buffers, which must be read meanwhile."""
FLAGS = [
    *["--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"],
    *["--batch_tokens=128", f"--train_steps={STEPS}"],
]
TRAIN_FLAGS = ["--", "--bleu_sentences=0", "--log_format=json", "--report_seconds=0"]

PAPER = {
    "base": {},
    "num_heads_1": {"num_heads": 1},
    "num_heads_4": {"num_heads": 4},
    "num_heads_16": {"num_heads": 16},
    "num_heads_32": {"num_heads": 32},
    "d_k_16": {"d_k": 16, "d_v": 64},
    "d_k_32": {"d_k": 32, "d_v": 64},
    "num_layers_2": {"num_layers": 2},
    "num_layers_4": {"num_layers": 4},
    "num_layers_8": {"num_layers": 8},
    "d_model_256": {"d_model": 256},
    "d_model_1024": {"d_model": 1024},
    "d_ff_1024": {"d_ff": 1024},
    "d_ff_4096": {"d_ff": 4096},
    "dropout_0": {"dropout": 0.0},
    "dropout_0.2": {"dropout": 0.2},
    "label_smoothing_0": {"label_smoothing": 0.0},
    "label_smoothing_0.2": {"label_smoothing": 0.2},
    "learned_position": {"position": "learned"},
}


def test_rows_of_base_match_table_3():
    found = {row: vary(BASE, row) for row in VARIATIONS}
    assert found.pop("big") == BIG.replace(average_last=BASE.training.average_last)
    assert found == {row: BASE.replace(**changed) for row, changed in PAPER.items()}


def test_rows_are_relative_to_the_preset():
    # tiny: 4 layers, d_model 128, 4 heads.
    assert vary(TINY, "num_heads_1") == TINY.replace(num_heads=1)
    assert vary(TINY, "num_heads_16") == TINY.replace(num_heads=8)
    assert vary(TINY, "d_k_16") == TINY.replace(d_k=8, d_v=32)
    assert vary(TINY, "num_layers_2") == TINY.replace(num_layers=1)
    deeper = BASE.replace(num_decoder_layers=3)
    assert vary(deeper, "num_layers_4").transformer.num_decoder_layers == 2
    # In row A, d_k = d_v = d_model / h, regardless of the base.
    base = BASE.replace(d_k=10, d_v=20)
    expected = BASE.replace(num_heads=16, d_k=32, d_v=32)
    assert vary(base, "num_heads_16") == expected


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Prepared data, and two rows, the second of which was interrupted and resumed."""
    work = tmp_path_factory.mktemp("work")
    command.prepare_words(work, train=200, dev=10)
    arguments = [*line(work, "rows"), "--rows=base,dropout_0", *TRAIN_FLAGS]
    process = subprocess.Popen(
        [sys.executable, "-m", "t2t_keras.pipelines.variations", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = ""
    for text in process.stderr:
        log += text
        if "Row 2 of 2: dropout_0" in log and '"step": 5,' in text:
            break
        if '"step": 5,' in text:
            assert "Row 1 of 2: base" in log
    process.send_signal(signal.SIGTERM)
    printed, rest = process.communicate(timeout=command.PATIENCE)
    assert process.returncode == 75, log + rest
    assert "Stopped after step" in rest
    assert rest.endswith("The same command line resumes at row dropout_0.\n")
    assert printed == ""
    assert [*results(work / "rows")] == ["base"]
    before = files(work / "rows" / "base")
    again = command.stage("variations", *arguments)
    assert "Row base is already trained" in again.stderr
    assert files(work / "rows" / "base") == before
    assert "Resuming after step" in again.stderr
    assert f"Trained {STEPS} steps: {work}/rows/dropout_0" in again.stderr
    return work, again.stdout


def line(work, output_dir):
    return [f"--data_dir={work}/data", f"--output_dir={work}/{output_dir}", *FLAGS]


def results(directory):
    return json.loads((directory / "variations.json").read_text())["rows"]


def files(directory):
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*")}


def test_table_shows_measured_figures_beside_the_papers(work):
    work, printed = work
    assert (work / "rows" / "variations.md").read_text() == printed
    head, rule, base, dropout, empty, note = printed.splitlines()
    assert head.count("the paper's") == 3
    assert {text.count("|") for text in (head, rule, base, dropout)} == {18}
    assert empty == ""
    assert "The paper's figures are for newstest2013" in note
    for row, text, paper in (
        ("base", base, ("4.92", "25.8", "65")),
        ("dropout_0", dropout, ("5.77", "24.6", "65")),
    ):
        scores = json.loads((work / "rows" / row / "scores.dev.json").read_text())
        assert scores["weights"] == [f"weights-{STEPS:08d}.npz"]
        bleu = scores["scores"][0]
        assert bleu["signature"] in note
        cells = [cell.strip() for cell in text.split("|")[1:-1]]
        # Layers, d_model, d_ff, heads, d_k, d_v, dropout, label smoothing, steps.
        sizes = ["1", "16", "16", "2", "8", "8", "0.1", "0.1", f"{STEPS}"]
        if row == "dropout_0":
            sizes[6] = "0.0"
        assert cells[:-6] == ["base" if row == "base" else "(D)", row, *sizes]
        assert tuple(cells[-5::2]) == paper
        assert cells[-6] == f"{scores['perplexity']['per_token']:.2f}"
        assert cells[-4] == f"{bleu['value']:.2f}"
        # 60 embeddings; 3 attentions of 4 * 16^2; 2 feed-forward networks; norms.
        assert float(cells[-2]) == pytest.approx(0.005344, rel=0.01)


def test_directory_with_trained_row_rejects_other_flags(work):
    work, _ = work
    before = files(work / "rows")
    changed = [*line(work, "rows"), "--rows=base", "--learning_rate=9", *TRAIN_FLAGS]
    rejected = command.stage("variations", *changed, status=2)
    assert "learning_rate is 1.2 there and 9.0 here" in rejected.stderr
    assert "For other flags, choose another --output_dir" in rejected.stderr
    after = files(work / "rows")
    # Only the lock file is touched.
    assert {path.name for path in after if after[path] != before.get(path)} <= {"lock"}


def test_table_excludes_rows_with_other_flags_or_data(work, tmp_path):
    work, _ = work
    (tmp_path / "rows").mkdir()
    record = json.loads((work / "rows" / "variations.json").read_text())
    record["rows"]["dropout_0"]["wanted"]["values"]["learning_rate"] = 9
    path = tmp_path / "rows" / "variations.json"
    path.write_text(json.dumps(record))
    shutil.copytree(work / "data", tmp_path / "data")
    base = [*line(tmp_path, "rows"), "--rows=base", *TRAIN_FLAGS]
    shown = command.stage("variations", *base)
    assert (
        "Rows trained with other flags are not in the table: dropout_0" in shown.stderr
    )
    assert [text[:8] for text in shown.stdout.splitlines()[2:4]] == ["| base |", ""]
    manifest = tmp_path / "data" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["splits"]["dev"]["pairs"] += 1
    manifest.write_text(json.dumps(content))
    rejected = command.stage("variations", *base, status=2)
    assert "holds rows trained on other data than" in rejected.stderr
    del content["splits"]["dev"]
    manifest.write_text(json.dumps(content))
    rejected = command.stage("variations", *base, status=2)
    assert "has no dev split" in rejected.stderr


def test_rows_added_by_another_process_are_kept(work, tmp_path):
    work, _ = work
    shutil.copytree(work / "data", tmp_path / "data")
    shutil.copytree(work / "rows" / "base", tmp_path / "rows" / "base")
    record = json.loads((work / "rows" / "variations.json").read_text())
    del record["rows"]["base"]
    arguments = [*line(tmp_path, "rows"), "--rows=base", *TRAIN_FLAGS]
    with subprocess.Popen(
        [sys.executable, "-m", "t2t_keras.pipelines.variations", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for text in process.stderr:
            if "Row 1 of 1: base" in text:
                (tmp_path / "rows" / "variations.json").write_text(json.dumps(record))
        table = process.stdout.read()
    assert process.returncode == 0
    assert [*results(tmp_path / "rows")] == ["dropout_0", "base"]
    assert table == (tmp_path / "rows" / "variations.md").read_text()
    assert [text[:13] for text in table.splitlines()[2:4]] == [
        "| base | base",
        "| (D) | dropo",
    ]


def test_invalid_training_flags_leave_nothing(work, tmp_path):
    work, _ = work
    shutil.copytree(work / "data", tmp_path / "data")
    wrong = [*line(tmp_path, "rows"), "--rows=base", "--", "--train_stepz=6"]
    rejected = command.stage("variations", *wrong, status=2)
    assert "Unknown command line flag 'train_stepz'" in rejected.stderr
    assert rejected.stderr.endswith("t2t-variations stopped at row base.\n")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--rows=F"],
            "--rows must be A, B, C, D, E, base, big or names of rows (base",
        ),
        (["--", "--dropout=0.5"], "--dropout is not allowed after --"),
        (["--", "--nopre_norm"], "--nopre_norm is not allowed after --"),
        (["--num_heads=4", "--d_model=12"], "Row num_heads_16 cannot be trained."),
        (["--row_score=meteor"], "Received: meteor"),
        (["--data_dir=/no"], "/no holds no prepared data"),
    ],
)
def test_invalid_flags_are_rejected_before_anything_is_written(
    tmp_path, arguments, message
):
    rejected = command.stage(
        "variations", *line(tmp_path, "rows"), *arguments, status=2
    )
    assert message in rejected.stderr
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
