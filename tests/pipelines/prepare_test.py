"""`t2t-prepare` as a user runs it: exit status, messages, and what it leaves."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

MODULE = "t2t_keras.pipelines.prepare"
EN = ["a house", "two houses", "three small houses", ""] * 5
DE = ["ein Haus", "zwei Häuser", "drei kleine Häuser", "leer"] * 5


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", MODULE, *arguments], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory):
    """Write the files that the commands read."""
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


@pytest.fixture(scope="module")
def results(work_dir):
    """Run every command, two at a time: each starts a process that loads TensorFlow."""
    commands = {
        "success": [
            *text_flags(work_dir, "train.de", "new/data"),
            f"--dev_source={work_dir}/train.en",
            f"--dev_target={work_dir}/train.de",
        ],
        "missing file": text_flags(work_dir, "absent.de", "absent"),
        "misaligned": text_flags(work_dir, "short.de", "misaligned"),
        "invalid utf-8": text_flags(work_dir, "latin.de", "latin"),
        "unknown flag": [*text_flags(work_dir, "train.de", "flag"), "--vocab_sice=60"],
        "another corpus": text_flags(work_dir, "train.de", "other")[1:],
        "no data_dir": text_flags(work_dir, "train.de", "none")[:3],
        "nonempty": text_flags(work_dir, "train.de", "full"),
    }
    with ThreadPoolExecutor(2) as pool:
        finished = pool.map(lambda arguments: run(*arguments), commands.values())
        return dict(zip(commands, finished, strict=True))


def test_success(results, work_dir):
    result = results["success"]
    assert result.returncode == 0, result.stderr
    # Standard output is for results alone, and this stage's are files.
    assert result.stdout == ""
    assert "train: kept 15 pairs" in result.stderr
    assert "removed 5 empty, 0 too long, 0 length ratio" in result.stderr
    manifest = json.loads((work_dir / "new" / "data" / "manifest.json").read_text())
    assert manifest["splits"]["train"]["pairs"] == 15
    assert manifest["splits"]["dev"]["removed"]["empty"] == 5
    assert manifest["source_vocab_size"] == 60
    # What the corpus was, so that it can be opened again.
    assert manifest["corpus_arguments"]["sources"]["train"] == [f"{work_dir}/train.en"]
    assert manifest["vocabulary_fingerprint"] in result.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("missing file", "error: No such file: {}/absent.de"),
        (
            "misaligned",
            "error: {0}/train.en:4: this line has no counterpart: {0}/short",
        ),
        ("invalid utf-8", "error: {}/latin.de:2: invalid UTF-8 at byte 7"),
        ("unknown flag", "error: Unknown command line flag 'vocab_sice'"),
        ("no data_dir", "error: --data_dir must be given."),
        ("another corpus", "error: --train_source, --train_target needs --corpus=text"),
        ("nonempty", "error: {}/full is not "),
    ],
)
def test_mistakes_are_told_in_a_message(results, work_dir, command, message):
    result = results[command]
    assert result.returncode == 2, result.stderr
    assert message.format(work_dir) in result.stderr
    assert "Traceback" not in result.stderr
    assert ".py" not in result.stderr
    assert result.stdout == ""


def test_failures_leave_nothing_behind(results, work_dir):
    assert len(results) == 8
    assert {path.name for path in work_dir.iterdir()} == {
        *("train.en", "train.de", "short.de", "latin.de", "full", "new")
    }
    assert [path.name for path in (work_dir / "full").iterdir()] == ["mine.txt"]
    assert [path.name for path in (work_dir / "new").iterdir()] == ["data"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
