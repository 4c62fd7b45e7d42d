"""Runs the whole pipeline end to end on the built-in corpus.

    python -m t2t_keras.pipelines.demo --work_dir=DIR

Prepares the data, trains a tiny model, scores it on held-out text, translates a few
sentences, exports the model, serves it, and requests the same translations from the
server. Prints the command line of each stage before running it.
"""

import contextlib
import json
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from absl import flags

from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
from t2t_keras.pipelines.command_line.exit_status import EXIT_FAILURE

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "work_dir",
    ".demo",
    "Directory to work in. Data and model of an earlier demo in it are removed.",
)
flags.DEFINE_integer("demo_steps", 2200, "Maximum number of training steps.", 1)
flags.DEFINE_integer("demo_pairs", 100_000, "Number of training pairs.", 1)

_PARTS = {
    "data": "manifest.json",
    "model": "config.json",
    "export": "1/saved_model.pb",
}
_VOCAB_SIZE = 4000
_MIN_BLEU = 95
"""Test BLEU that the demo must reach with default flags."""
_SHOWN = 8


def main() -> None:
    """Runs the stage."""
    from t2t_keras.data.prepared_data import text_path
    from t2t_keras.data.text_lines import read_lines

    standard_streams.check_output("-")
    work_dir = Path(FLAGS.work_dir)
    # Removes the results of an earlier demo, and only directories that look like one.
    for part, marker in _PARTS.items():
        if (work_dir / part / marker).is_file():
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
        # The corpus is rule-based: the model cannot overfit in a few minutes.
        "--dropout=0",
        # Steps, not minutes: the result does not depend on the speed of the machine.
        f"--train_steps={FLAGS.demo_steps}",
        "--cooldown=0.3",
        "--checkpoint_steps=200",
        # Stops early if the dev BLEU stays above the required score.
        "--early_stop_metric=val_bleu",
        f"--early_stop_threshold={_MIN_BLEU}",
        "--early_stop_patience=1",
        data_dir,
        model_dir,
    )
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
    _run("export", model_dir, f"--export_dir={work_dir}/export")
    served = work_dir / "sample.served.txt"
    with _server(work_dir / "export") as address:
        _run("request", *address, f"--input={sample}", f"--output={served}")
    if served.read_bytes() != translated.read_bytes():
        stage.report(
            f"\nerror: The server's translations in {served} differ from those of "
            f"t2t-translate in {translated}."
        )
        sys.exit(EXIT_FAILURE)
    print("The server returned the same translations.")
    record = json.loads((work_dir / "model" / "scores.test.json").read_text())
    bleu = record["scores"][0]["value"]
    flags_given = FLAGS["demo_steps"].present or FLAGS["demo_pairs"].present
    if bleu < _MIN_BLEU and not flags_given:
        stage.report(
            f"\nerror: The demo reached {bleu:.2f} BLEU. Expected at least {_MIN_BLEU}."
        )
        sys.exit(EXIT_FAILURE)
    print(f"\nThe model is in {work_dir}/model. Try it:")
    print(f"  echo '21 days' | .venv/bin/t2t-translate {model_dir}")
    print(f"  .venv/bin/t2t-serve --model_base_path={work_dir}/export")


@contextlib.contextmanager
def _server(base: Path) -> Iterator[list[str]]:
    """Runs a server and yields the flags with which `t2t-request` connects to it."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in sockets]
    arguments = [
        "--model_name=demo",
        f"--model_base_path={base}",
        f"--port={ports[0]}",
        f"--rest_api_port={ports[1]}",
    ]
    print(f"\n$ t2t-serve {shlex.join(arguments)} &", flush=True)
    command = [sys.executable, "-m", "t2t_keras.pipelines.serve", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr  # For the type checker: it is a pipe.
        for line in process.stderr:
            print(line, end="", file=sys.stderr)
            if line.startswith("REST"):
                break
        try:
            yield [f"--server=localhost:{ports[0]}", "--model_name=demo"]
        finally:
            process.terminate()
            print(process.stderr.read(), end="", file=sys.stderr)
    if process.returncode:
        stage.report(f"The demo failed: t2t-serve exited with {process.returncode}.")
        sys.exit(process.returncode)


def _run(name: str, *arguments: str) -> None:
    """Runs a stage in a child process; exits with its status if it fails."""
    print(f"\n$ t2t-{name} {shlex.join(arguments)}", flush=True)
    command = [sys.executable, "-m", f"t2t_keras.pipelines.{name}", *arguments]
    status = subprocess.run(command, check=False).returncode
    if status:
        stage.report(f"The demo failed: t2t-{name} exited with {status}.")
        sys.exit(status)


def run() -> None:
    """Console entry point."""
    stage.run(main, __name__)


if __name__ == "__main__":
    run()
