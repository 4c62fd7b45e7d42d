"""Every input line has an output line, even with invalid input or a broken model."""

import gzip
import json
import shutil
import sys

import command
import numpy as np
import pytest

SOURCE = b"\xef\xbb\xbfred one\nbl\xffue\n\nold \x00new\rtwo\xe2\x80\xa8three\nbig"
TARGET = b"RED ONE\nBLUE\n\nOLD NEW\nB\xc3IG\n"
BROKEN = "error: The model is broken: it computes NaN or infinite numbers. "


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A trained model, a broken copy of it, and files with valid and invalid lines."""
    work = tmp_path_factory.mktemp("work")
    command.prepare_words(work, train=60)
    sizes = ["--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"]
    command.stage(
        "train",
        f"--data_dir={work}/data",
        f"--model_dir={work}/model",
        *sizes,
        "--batch_tokens=128",
        "--train_steps=3",
    )
    shutil.copytree(work / "model", work / "broken")
    (path,) = (work / "broken" / "checkpoints").glob("weights-*.npz")
    arrays = dict(np.load(path))
    next(array for array in arrays.values() if array.ndim > 1)[7, 3] = np.nan
    np.savez(path, **arrays)
    (work / "source").write_bytes(SOURCE)
    (work / "source.gz").write_bytes(gzip.compress(SOURCE))
    (work / "target").write_bytes(TARGET)
    (work / "whole").write_bytes(b"red one\n\nbig\n")
    long = "red " * 25_000
    (work / "long").write_text(f"{long}\nred one\nbig\n")
    (work / "prefixed").write_text(f"red\t{long.upper()}\nred\tBLUE\n")
    return work


def test_translate_skips_invalid_lines_and_continues(work, tmp_path):
    model = f"--model_dir={work}/model"
    process = command.stage("translate", model, status=2, stdin=SOURCE)
    lines = process.stdout.split("\n")
    assert len(lines) == 6
    assert [bool(line) for line in lines] == [True, False, False, True, True, False]
    assert process.stderr == "error: standard input:2: invalid UTF-8: not translated.\n"
    output = tmp_path / "out.gz"
    files = [f"--input={work}/source.gz", f"--output={output}"]
    done = command.stage("translate", model, *files, status=2)
    assert gzip.decompress(output.read_bytes()).decode() == process.stdout
    assert f"error: {work}/source.gz:2: invalid UTF-8" in done.stderr
    shown = command.stage(
        *("translate", model, f"--input={work}/source", "--output_format=json"),
        status=2,
    ).stdout
    entries = [json.loads(line) for line in shown.splitlines()]
    assert [entry["status"] for entry in entries] == [
        *("ok", "invalid_utf8", "empty", "ok", "ok")
    ]
    assert [entry["source"] for entry in entries] == [
        *("red one", "bl\ufffdue", "", "old \x00new\rtwo\u2028three", "big")
    ]
    hypotheses = [entry["hypotheses"][0] for entry in entries]
    assert [one["text"] for one in hypotheses] == lines[:5]
    # Lines that were not translated have no score, rather than 0 (probability 1).
    is_scored = [True, False, False, True, True]
    assert [one["score"] is not None for one in hypotheses] == is_scored
    for flags, column in ((["--n_best=2"], 1), (["--print_scores"], 0)):
        files = [f"--input={work}/source", "--beam_size=2", *flags]
        shown = command.stage("translate", model, *files, status=2).stdout
        rows = [line.split("\t") for line in shown.split("\n")[:-1]]
        empty = [row for row in rows if row[-1] == ""]
        assert [row[column] for row in empty] == ["", ""]
        assert all(float(row[column]) < 0 for row in rows if row[-1])
    many = b"\xff\n" * 30 + b"red\n"
    done = command.stage("translate", model, status=2, stdin=many)
    assert done.stdout.count("\n") == 31
    assert done.stderr.count(": not translated.") == 10
    assert "30 lines in total are invalid UTF-8" in done.stderr


def test_score_writes_one_line_per_pair(work):
    model = f"--model_dir={work}/model"
    files = [f"--input={work}/source", f"--translations={work}/target"]
    process = command.stage("score", model, *files, status=2)
    rows = [line.split("\t") for line in process.stdout.splitlines()]
    assert rows[1] == rows[4] == ["", "", "invalid_utf8"]
    assert rows[2] == ["", "", "empty"]
    for total, each in (rows[0], rows[3]):
        assert float(total) == pytest.approx(sum(map(float, each.split())), abs=1e-2)
    assert f"error: {work}/source:2: invalid UTF-8: not scored.\n" in process.stderr
    assert f"error: {work}/target:5: invalid UTF-8: not scored.\n" in process.stderr


def test_evaluate_continues_after_invalid_lines(work):
    files = [f"--source={work}/source", f"--reference={work}/target"]
    process = command.stage("evaluate", f"--model_dir={work}/model", *files, status=2)
    assert f"error: {work}/source:2: invalid UTF-8: not translated." in process.stderr
    assert f"error: {work}/target:5: invalid UTF-8: scored with" in process.stderr
    written = (work / "model" / "hypotheses.file.source.txt").read_text().split("\n")
    assert len(written) == 6
    assert written[1] == ""
    record = json.loads((work / "model" / "scores.file.source.json").read_text())
    assert record["statuses"] == {
        "translated": {"ok": 3, "empty": 1, "invalid_utf8": 1},
        "perplexity": {"ok": 2, "empty": 1, "invalid_utf8": 2},
    }
    files = [f"--hypothesis={work}/source", f"--reference={work}/target"]
    process = command.stage("evaluate", *files, f"--baseline={work}/target", status=2)
    assert f"error: {work}/source:2: invalid UTF-8: scored with" in process.stderr
    assert "bleu" in process.stdout


def test_every_stage_cuts_and_reports_long_lines(work):
    model = f"--model_dir={work}/model"
    files = [f"--input={work}/long", f"--translations={work}/long"]
    process = command.stage("score", model, *files)
    first, second, _ = (line.split("\t") for line in process.stdout.splitlines())
    assert (len(first[1].split()), first[2]) == (1024, "too_long")
    assert len(second) == 2
    cut = "1 line was longer than 1,024 tokens: cut and "
    assert cut + "scored.\n" in process.stderr
    files = [f"--source={work}/long", f"--reference={work}/long"]
    process = command.stage("evaluate", model, *files, "--max_output_tokens=9")
    assert cut + "translated.\n" in process.stderr
    assert cut + "counted in the perplexity.\n" in process.stderr
    record = json.loads((work / "model" / "scores.file.long.json").read_text())
    assert record["statuses"]["perplexity"] == {"ok": 2, "too_long": 1}
    assert 1024 < record["perplexity"]["tokens"] < 1100
    # Only the words of the scored part.
    assert record["perplexity"]["words"] < 1100
    prefixed = [f"--input={work}/prefixed", "--with_prefix", "--beam_size=1"]
    process = command.stage("translate", model, *prefixed, "--output_format=json")
    entries = [json.loads(line) for line in process.stdout.splitlines()]
    assert [entry["status"] for entry in entries] == ["too_long", "ok"]
    assert len(entries[0]["hypotheses"][0]["tokens"]) in (1024, 1025)
    assert cut + "translated.\n" in process.stderr


def test_broken_model_still_writes_one_line_per_input(work):
    model = [f"--model_dir={work}/broken", f"--input={work}/whole"]
    message = f"{BROKEN}Not translated: lines 1, 3.\n"
    for flags, output in (
        ([], "\n\n\n"),
        (["--n_best=2"], "1\t\t\n2\t\t\n3\t\t\n"),
        (["--print_scores"], "\t\n\t\n\t\n"),
        (["--sample", "--beam_size=1"], "\n\n\n"),
    ):
        process = command.stage("translate", *model, *flags, status=1)
        assert process.stdout == output
        assert process.stderr == message
    shown = command.stage("translate", *model, "--output_format=json", status=1).stdout
    entries = [json.loads(line) for line in shown.splitlines()]
    assert [entry["status"] for entry in entries] == [
        *("model_error", "empty", "model_error")
    ]
    assert [one["score"] for entry in entries for one in entry["hypotheses"]] == (
        [None] * 3
    )
    process = command.stage("score", *model, f"--translations={work}/whole", status=1)
    assert process.stdout == "\t\tmodel_error\n\t\tempty\n\t\tmodel_error\n"
    assert f"{BROKEN}Not scored: lines 1, 3.\n" in process.stderr


def test_broken_model_is_evaluated_but_not_exported(work, tmp_path):
    model = f"--model_dir={work}/broken"
    files = [f"--source={work}/whole", f"--reference={work}/whole"]
    process = command.stage("evaluate", model, *files, status=1)
    assert process.stderr.count("The model is broken") == 1
    assert "perplexity: no reference was scored" in process.stdout
    written = (work / "broken" / "hypotheses.file.whole.txt").read_text()
    assert written == "\n\n\n"
    record = (work / "broken" / "scores.file.whole.json").read_text()
    assert "NaN" not in record
    assert json.loads(record)["perplexity"]["per_token"] is None
    process = command.stage("export", model, f"--export_dir={tmp_path}/base", status=1)
    assert "the model is broken and was not exported" in process.stderr
    assert not list(tmp_path.iterdir())
    visualize_flags = [f"--output_dir={tmp_path}/drawn", "--source_text=red"]
    for flags in ([], ["--target_text=RED"]):
        process = command.stage("visualize", model, *visualize_flags, *flags, status=1)
        assert "The model is broken" in process.stderr
    assert not list(tmp_path.iterdir())


def test_visualize_rejects_invalid_utf8(work, tmp_path):
    model = [f"--model_dir={work}/model", f"--output_dir={tmp_path}/drawn"]
    for flags in (
        ["--source_text=\udcff"],
        ["--source_text=a", "--target_text=\udcff"],
    ):
        process = command.stage("visualize", *model, *flags, status=2)
        assert (
            f"error: {flags[-1].partition('=')[0]} is not valid UTF-8.\n"
            == process.stderr
        )
    assert not list(tmp_path.iterdir())


def test_conflicting_length_limits_are_reported(work):
    model = f"--model_dir={work}/model"
    rejected = command.stage("translate", model, "--min_length=1100", status=2)
    assert "min_length must be at most" in rejected.stderr
    arguments = ["--min_length=70", "--beam_size=1", "--output_format=json"]
    process = command.stage("translate", model, *arguments, stdin=b"red\n")
    assert (
        "--min_length=70 takes precedence over --max_extra_length=50" in process.stderr
    )
    assert len(json.loads(process.stdout)["hypotheses"][0]["tokens"]) >= 70


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
