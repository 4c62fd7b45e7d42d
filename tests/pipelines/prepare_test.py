"""Tests of t2t-prepare as a process: exit status, messages and output files."""

import json
import re
import subprocess
import sys

import command
import pytest

from t2t_keras.data.prepared_data import PreparedData

EN = ["a house", "two houses", "three small houses", ""] * 5
DE = ["ein Haus", "zwei Häuser", "drei kleine Häuser", "leer"] * 5


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory):
    """A directory with the input files of the commands."""
    path = tmp_path_factory.mktemp("work")
    (path / "train.en").write_text("\n".join(EN) + "\n", encoding="utf-8")
    (path / "train.de").write_text("\n".join(DE) + "\n", encoding="utf-8")
    (path / "short.de").write_text("\n".join(DE[:3]), encoding="utf-8")
    (path / "latin.de").write_text("\n".join(DE) + "\n", encoding="latin-1")
    (path / "full").mkdir()
    (path / "full" / "mine.txt").write_text("keep")
    return path


def text_flags(work_dir, target, data_dir):
    return [
        "--corpus=text",
        f"--train_source={work_dir}/train.en",
        f"--train_target={work_dir}/{target}",
        f"--data_dir={work_dir}/{data_dir}",
        "--vocab_size=60",
    ]


def test_prepare_writes_data_and_reports_what_it_removed(work_dir):
    result = command.stage(
        "prepare",
        *text_flags(work_dir, "train.de", "new/data"),
        f"--dev_source={work_dir}/train.en",
        f"--dev_target={work_dir}/train.de",
    )
    # Standard output is for results only, and the results of this stage are files.
    assert result.stdout == ""
    assert "train: kept 15 pairs" in result.stderr
    assert "removed 5 empty, 0 too long, 0 length ratio" in result.stderr
    manifest = json.loads((work_dir / "new" / "data" / "manifest.json").read_text())
    assert manifest["splits"]["train"]["pairs"] == 15
    assert manifest["splits"]["dev"]["removed"]["empty"] == 5
    assert manifest["source_vocab_size"] == 60
    # The arguments of the corpus, so that it can be opened again.
    assert manifest["corpus_arguments"]["sources"]["train"] == [f"{work_dir}/train.en"]
    assert manifest["vocabulary_fingerprint"] in result.stderr
    assert manifest["normalization"] == {"source": "nmt_nfkc", "target": "identity"}
    # The training text was given as dev text too, a common mistake.
    assert manifest["splits"]["dev"]["in_train"] == {"pairs": 15, "sources": 15}
    assert "dev: of 15 pairs, 15 also occur in train" in result.stderr
    # SentencePiece's own log messages are suppressed.
    assert "LOG" not in result.stderr
    assert [path.name for path in (work_dir / "new").iterdir()] == ["data"]


# A shell script, for the pipes.
_CONCURRENT_RUNS = """
prepare() { "$0" -m t2t_keras.pipelines.prepare --corpus=text --vocab_size=500 "$@"; }
prepare --train_source="$1" --train_target="$2" --data_dir=data 2> 1.log & first=$!
prepare --train_source="$1" --train_target="$2" --data_dir=data --subword=unigram \
  2> 2.log & second=$!
cat "$1" | prepare --train_source=- --train_target=<(gzip -c "$2") --data_dir=pipes \
  --noshare_vocabulary 2> 3.log; echo $?
wait $first; echo $?
wait $second; echo $?
"""


def test_one_of_two_concurrent_runs_wins_and_pipes_are_read_like_files(
    work_dir, tmp_path
):
    files = [f"{work_dir}/train.{language}" for language in ("en", "de")]
    done = subprocess.run(
        ["bash", "-c", _CONCURRENT_RUNS, sys.executable, *files],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=command.PATIENCE,
    )
    pipes_status, *concurrent = map(int, done.stdout.split())
    logs = [(tmp_path / f"{number}.log").read_text() for number in (1, 2, 3)]
    assert sorted(concurrent) == [0, 2], logs
    winner = concurrent.index(0)
    assert re.search(
        "error: (.*/data is not an empty directory|Another t2t-prepare is writing)",
        logs[1 - winner],
    )
    data = PreparedData(tmp_path / "data")
    kind = ("bpe", "unigram")[winner]
    assert data.manifest["subword"] == data.tokenizers.source.subword == kind
    assert len(data.examples("train")) == 15

    assert pipes_status == 0, logs[2]
    assert len(PreparedData(tmp_path / "pipes").examples("train")) == 15
    assert "The source text yields only" in logs[2]
    assert "The target text yields only" in logs[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.de", "new1"], "error: No such file: {}/absent.de"),
        (
            ["short.de", "new2"],
            "error: {0}/train.en:4: this line has no counterpart: {0}/short",
        ),
        (["latin.de", "new3"], "error: {}/latin.de:2: invalid UTF-8 at byte 7"),
        (
            ["train.de", "new4", "--vocab_sice=60"],
            "error: Unknown command line flag 'vocab_sice'",
        ),
        (["train.de", ""], "error: --data_dir must be given."),
        (
            ["train.de", "new5", "--corpus=cldr"],
            "error: --train_source, --train_target needs --corpus=text",
        ),
        (["train.de", "full"], "error: {}/full is not an empty directory"),
        (
            ["train.de", "new6", "--vocabulary_from=x", "--source_normalization=nfkc"],
            "error: --source_normalization cannot be combined with",
        ),
    ],
)
def test_user_errors_print_a_message_and_leave_nothing(work_dir, arguments, message):
    before = sorted(work_dir.rglob("*"))
    target, data_dir, *others = arguments
    line = [*text_flags(work_dir, target, data_dir), *others]
    if not data_dir:
        line = [flag for flag in line if not flag.startswith("--data_dir")]
    result = command.stage("prepare", *line, status=2)
    assert message.format(work_dir) in result.stderr
    assert ".py" not in result.stderr
    assert result.stdout == ""
    assert sorted(work_dir.rglob("*")) == before


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
