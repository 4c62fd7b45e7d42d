"""Compares the speed of this project with other software.

python benchmarks/bench.py [--rounds=3] [--only=training] [--against=tf-models]
    [--multi30k=DIR]

Programs run in turn, one process at a time. This project runs before each of the
others, so that load on the machine affects both. Figures are medians over the rounds.
On a virtual machine, a run is repeated if the host was busy with other machines. A
program that fails is skipped for the rest of the workload.

Each run is recorded in .bench/results.jsonl, with its share of stolen time. Tables are
printed and written to .bench/results.md, plots to .bench/results.svg and .png. Without
DIR, the folder of Multi30k's files, workloads that read them are skipped.
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
import stolen
from growth import GROWTHS, Growth
from tables import MACHINE, Runs, growth_table, rate_table
from workloads import OURS, WORKLOADS, Contestant, Workload

from t2t_keras.runtime import environment

_ATTEMPTS = 4
"""Maximum number of attempts to get a clean run."""


def main() -> None:
    """Measures the workloads that the flags select."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of rounds (default 3)"
    )
    parser.add_argument(
        "--only", default="", help="run workloads whose name contains this"
    )
    parser.add_argument(
        "--against", default="", help="compare with programs whose name contains this"
    )
    parser.add_argument(
        "--multi30k", type=Path, help="folder with Multi30k's train.en.gz etc."
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=peers.BENCH,
        help="output folder (default .bench)",
    )
    arguments = parser.parse_args()
    everything: dict[str, Workload | Growth] = {**WORKLOADS, **GROWTHS}
    chosen = {
        name: work._replace(
            contestants=[
                contestant
                for contestant in work.contestants
                if contestant.peer == OURS or arguments.against in contestant.name
            ]
        )
        for name, work in everything.items()
        if arguments.only in name
    }
    if not chosen:
        parser.error(
            f"--only must be part of one of {', '.join(everything)}. Received: "
            f"{arguments.only}"
        )
    if not any(arguments.against in c.name for w in chosen.values() for c in w.runs()):
        parser.error(f"--against={arguments.against} matches no program there")
    left_out = [n for n, w in chosen.items() if w.needs_text and not arguments.multi30k]
    if left_out:
        _log(f"Skipped without --multi30k: {'; '.join(left_out)}")
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
        draw.draw({n: (chosen[n], runs) for n, runs in found.items()}, images)


def measure(name: str, work: Workload | Growth, arguments: argparse.Namespace) -> Runs:
    """Runs all contestants in turn for the given number of rounds.

    Returns:
        The figures of the contestants that did not fail. This project has one run
        before each rival's run.

    Raises:
        SystemExit: If a program of this project fails.
    """
    precision = "float32" if isinstance(work, Growth) else work.precision
    turns = work.runs()
    if work.flops:
        command = ["machine.py", f"--precision={precision}"]
        turns = [Contestant(MACHINE, MACHINE, command), *turns]
    pythons = {c.peer: peers.python_of(c.peer) for c in turns}
    failed: set[str] = set()
    set_up: dict[tuple[str, ...], bool] = {}
    for contestant in turns:
        if not contestant.setup:
            continue
        setup = (contestant.peer, *contestant.setup)
        if setup not in set_up:
            set_up[setup] = _run(pythons, contestant, contestant.setup) is not None
        if not set_up[setup]:
            _skip(contestant, failed)
    runs: Runs = {}
    for number in range(1, arguments.rounds + 1):
        for contestant in turns:
            if contestant.name in failed:
                continue
            figures = _clean_run(pythons, contestant)
            if figures is None:
                _skip(contestant, failed)
                continue
            runs.setdefault(contestant.name, []).append(figures)
            _log(
                f"{name}, round {number} of {arguments.rounds}: {contestant.name} "
                f"{figures['rate']:.4g}, stolen {figures['stolen_percent']:.0f}%"
            )
            with (arguments.output / "results.jsonl").open("a") as file:
                record: dict[str, Any] = {
                    "workload": name,
                    "run": contestant.name,
                    "round": number,
                    "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                }
                file.write(json.dumps(record | figures) + "\n")
    return {name: found for name, found in runs.items() if name not in failed}


def _skip(contestant: Contestant, failed: set[str]) -> None:
    if contestant.name not in failed:
        failed.add(contestant.name)
        _log(f"Continuing without {contestant.name}.")


def _clean_run(
    pythons: dict[str, str], contestant: Contestant
) -> dict[str, Any] | None:
    """Runs a contestant until the host has taken almost no processor time.

    Returns:
        The figures of the run with the least stolen time, including that share. None if
        a run fails.
    """
    best: dict[str, Any] | None = None
    for _ in range(_ATTEMPTS):
        before = stolen.times()
        output = _run(pythons, contestant, contestant.command)
        if output is None:
            return None
        figures = json.loads(output.splitlines()[-1])
        figures["stolen_percent"] = stolen.percent(before, stolen.times())
        if best is None or figures["stolen_percent"] < best["stolen_percent"]:
            best = figures
        if figures["stolen_percent"] < stolen.CLEAN:
            break
        _log(f"{contestant.name}: not clean, {figures['stolen_percent']:.0f}% stolen")
    return best


def _run(
    pythons: dict[str, str], contestant: Contestant, command: list[str]
) -> str | None:
    """Runs a program with the environment variables that its software sets.

    Returns:
        The standard output, or None if a program of other software fails.
    """
    is_own = contestant.peer in (OURS, MACHINE)
    finished = subprocess.run(
        [pythons[contestant.peer], _path(command[0]), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # For every TensorFlow, because the default depends on the processor.
            "TF_ENABLE_ONEDNN_OPTS": "1",
            **(environment() if is_own else {}),
            **os.environ,
            "BENCH_STARTED": str(time.time()),
        },
    )
    if finished.returncode:
        message = f"{' '.join(command)} failed:\n{finished.stderr[-4000:]}"
        if is_own:
            sys.exit(message)
        _log(message)
        return None
    return finished.stdout


def _path(program: str) -> Path:
    return Path(__file__).with_name(program)


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
