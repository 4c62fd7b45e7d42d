"""Runs workloads side by side with other software and prints the ratios.

python benchmarks/bench.py [--rounds=3] [--only=training] [--multi30k=DIR]

Contestants take turns, one process at a time, so that whatever the machine does meets
all of them; figures are medians over the rounds. Every run is kept in
.bench/results.jsonl; the tables are printed and written to .bench/results.md, drawn in
.bench/results.svg and .png. Without DIR, the folder of Multi30k's files, what reads
them is left out.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import draw
import peers
from growth import GROWTHS, Growth
from tables import MACHINE, Runs, growth_table, rate_table
from workloads import OURS, WORKLOADS, Contestant, Workload

from t2t_keras.pipelines.stage import environment


def main() -> None:
    """Measures what flags ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--only", default="", help="part of the workloads' names")
    parser.add_argument(
        "--multi30k", type=Path, help="folder of train.en.gz and others"
    )
    parser.add_argument("--output", type=Path, default=peers.BENCH)
    arguments = parser.parse_args()
    everything: dict[str, Workload | Growth] = {**WORKLOADS, **GROWTHS}
    chosen = {n: w for n, w in everything.items() if arguments.only in n}
    if not chosen:
        parser.error(f"--only is part of {', '.join(everything)}")
    left_out = [n for n, w in chosen.items() if w.needs_text and not arguments.multi30k]
    if left_out:
        _tell(f"Left out without --multi30k: {'; '.join(left_out)}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    if any(work.needs_text for work in chosen.values()) and arguments.multi30k:
        folder = str(arguments.multi30k)
        subprocess.run([sys.executable, _path("multi30k.py"), folder], check=True)
    found: dict[str, Runs] = {}
    tables: list[str] = []
    for name, work in chosen.items():
        if name in left_out:
            continue
        found[name] = measure(name, work, arguments)
        table = (
            growth_table(name, work, found[name])
            if isinstance(work, Growth)
            else rate_table(name, work, found[name])
        )
        print(table)
        tables.append(table)
        (arguments.output / "results.md").write_text("\n".join(tables))
        images = [arguments.output / f"results.{kind}" for kind in ("svg", "png")]
        draw.draw({n: (everything[n], runs) for n, runs in found.items()}, images)


def measure(name: str, work: Workload | Growth, arguments: argparse.Namespace) -> Runs:
    """Runs all contestants in turn, so many rounds."""
    precision = "float32" if isinstance(work, Growth) else work.precision
    everyone = work.runs() if isinstance(work, Growth) else work.contestants
    if work.flops:
        command = ["machine.py", f"--precision={precision}"]
        everyone = [Contestant(MACHINE, MACHINE, command), *everyone]
    pythons = {c.peer: peers.python_of(c.peer) for c in everyone}
    for setup in {(c.peer, *c.setup) for c in everyone if c.setup}:
        _run(pythons[setup[0]], list(setup[1:]), own={})
    runs: Runs = {c.name: [] for c in everyone}
    for number in range(1, arguments.rounds + 1):
        for contestant in everyone:
            own = environment() if contestant.peer in (OURS, MACHINE) else {}
            output = _run(pythons[contestant.peer], contestant.command, own)
            figures = json.loads(output.splitlines()[-1])
            runs[contestant.name].append(figures)
            _tell(
                f"{name}, round {number} of {arguments.rounds}: {contestant.name} "
                f"{figures['rate']:.4g}"
            )
            with (arguments.output / "results.jsonl").open("a") as file:
                record: dict[str, Any] = {
                    **{"workload": name, "run": contestant.name, "round": number},
                    "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                }
                file.write(json.dumps(record | figures) + "\n")
    return runs


def _run(python: str, command: list[str], own: dict[str, str]) -> str:
    """Runs a program in the environment that it sets itself; returns what it prints."""
    finished = subprocess.run(
        [python, _path(command[0]), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # For every TensorFlow: some processors have it on by default.
            "TF_ENABLE_ONEDNN_OPTS": "1",
            **own,
            **os.environ,
            "BENCH_STARTED": str(time.time()),
        },
    )
    if finished.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{finished.stderr[-4000:]}")
    return finished.stdout


def _path(program: str) -> Path:
    return Path(__file__).with_name(program)


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
