"""Shows the main job from end to end on the embedded corpus.

Prepares the data, trains a tiny model, averages its checkpoints, scores it on text
it has not seen, and translates a few sentences. Each stage is the command that a
user would type, and is printed before it runs.

    python -m t2t_keras.pipelines.demo --work_dir=DIR
"""

import json
import shlex
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

from absl import flags

from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "work_dir",
    ".demo",
    "Directory to work in; an earlier demo's data and model in it are removed.",
)
flags.DEFINE_float("demo_minutes", 7.0, "Minutes to train for.", 0)
flags.DEFINE_integer("demo_pairs", 100_000, "Training pairs.", 1)

_VOCAB_SIZE = 4000
_LEAST_BLEU = 95
"""What the demo promises as long as its flags are the defaults."""
_SHOWN = 8


def main() -> None:
    """Runs the stage."""
    from t2t_keras.data.lines import read_lines
    from t2t_keras.data.preparation import text_path

    work_dir = Path(FLAGS.work_dir)
    # What an earlier demo left is removed, and nothing that is not a demo's.
    for part, mark in (("data", "manifest.json"), ("model", "config.json")):
        if (work_dir / part / mark).is_file():
            shutil.rmtree(work_dir / part)
    work_dir.mkdir(parents=True, exist_ok=True)
    data_dir, model_dir = f"--data_dir={work_dir}/data", f"--model_dir={work_dir}/model"
    _run(
        "prepare",
        "--corpus=cldr",
        "--source_lang=en",
        "--target_lang=de",
        f"--cldr_pairs={FLAGS.demo_pairs}",
        f"--tfds_data_dir={work_dir}/tensorflow_datasets",
        f"--vocab_size={_VOCAB_SIZE}",
        data_dir,
    )
    _run(
        "train",
        "--preset=tiny",
        # The corpus follows rules: there is nothing to overfit to in seven minutes.
        "--dropout=0",
        f"--train_minutes={FLAGS.demo_minutes}",
        data_dir,
        model_dir,
    )
    _run("average", model_dir)
    _run("evaluate", "--split=test", model_dir)

    sources, references = (
        list(islice(read_lines(text_path(work_dir / "model", "test", side)), _SHOWN))
        for side in ("source", "target")
    )
    sample = work_dir / "sample.txt"
    sample.write_text("".join(f"{line}\n" for line in sources), encoding="utf-8")
    translated = work_dir / "sample.translated.txt"
    _run("translate", model_dir, f"--input={sample}", f"--output={translated}")
    for source, translation, reference in zip(
        sources, read_lines(translated), references, strict=True
    ):
        print(f"\nsource       {source}\ntranslation  {translation}")
        print(f"reference    {reference}")
    record = json.loads((work_dir / "model" / "scores.test.json").read_text())
    bleu = record["scores"][0]["value"]
    flags_given = FLAGS["demo_minutes"].present or FLAGS["demo_pairs"].present
    if bleu < _LEAST_BLEU and not flags_given:
        stage.report(
            f"\nerror: The demo reached {bleu:.2f} BLEU instead of "
            f"{_LEAST_BLEU}. On a slow or busy machine it needs more --demo_minutes."
        )
        sys.exit(stage.EXIT_FAILURE)
    print(f"\nThe model is in {work_dir}/model. Try it:")
    print(f"  echo '21 days' | .venv/bin/t2t-translate {model_dir}")


def _run(name: str, *arguments: str) -> None:
    """Runs a stage in a process of its own and ends with it if it fails."""
    print(f"\n$ t2t-{name} {shlex.join(arguments)}", flush=True)
    command = [sys.executable, "-m", f"t2t_keras.pipelines.{name}", *arguments]
    status = subprocess.run(command, check=False).returncode
    if status:
        stage.report(f"The demo ends here: t2t-{name} exited with {status}.")
        sys.exit(status)


def run() -> None:
    """Runs the demo."""
    stage.run(main, __name__)


if __name__ == "__main__":
    run()
