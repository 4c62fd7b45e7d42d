"""Runs workloads side by side with other software and prints the ratios.

python benchmarks/bench.py [--rounds=3] [--only=training] [--against=tf-models]
    [--multi30k=DIR]

Contestants take turns, one process at a time, and this project runs anew before each
of the others, so that whatever the machine does meets both; figures are medians over
the rounds. Of a virtual machine whose host is busy with others, a run is repeated.
Who fails is left out of the rest of a workload. Every run that counts is kept in
.bench/results.jsonl, with what was stolen of it; the tables are printed and written to
.bench/results.md, drawn in .bench/results.svg and .png. Without DIR, the folder of
Multi30k's files, what reads them is left out.
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

from t2t_keras.pipelines.stage import environment

_ATTEMPTS = 4
"""How often a run is tried until it is clean."""


def main() -> None:
    """Measures what flags ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--only", default="", help="part of the workloads' names")
    parser.add_argument("--against", default="", help="part of the others' names")
    parser.add_argument(
        "--multi30k", type=Path, help="folder of train.en.gz and others"
    )
    parser.add_argument("--output", type=Path, default=peers.BENCH)
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
        parser.error(f"--only is part of {', '.join(everything)}")
    if not any(arguments.against in c.name for w in chosen.values() for c in w.runs()):
        parser.error(f"--against={arguments.against} is part of nobody's name there")
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
        draw.draw({n: (chosen[n], runs) for n, runs in found.items()}, images)


def measure(name: str, work: Workload | Growth, arguments: argparse.Namespace) -> Runs:
    """Runs all contestants in turn, so many rounds.

    Returns:
        The figures of those that never failed; of this project's own, where it has
        rivals, one run before each rival's.

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
    made: dict[tuple[str, ...], bool] = {}
    for contestant in turns:
        if not contestant.setup:
            continue
        setup = (contestant.peer, *contestant.setup)
        if setup not in made:
            made[setup] = _run(pythons, contestant, contestant.setup) is not None
        if not made[setup]:
            _leave_out(contestant, failed)
    runs: Runs = {}
    for number in range(1, arguments.rounds + 1):
        for contestant in turns:
            if contestant.name in failed:
                continue
            figures = _clean_run(pythons, contestant)
            if figures is None:
                _leave_out(contestant, failed)
                continue
            runs.setdefault(contestant.name, []).append(figures)
            _tell(
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


def _leave_out(contestant: Contestant, failed: set[str]) -> None:
    if contestant.name not in failed:
        failed.add(contestant.name)
        _tell(f"Going on without {contestant.name}.")


def _clean_run(
    pythons: dict[str, str], contestant: Contestant
) -> dict[str, Any] | None:
    """Runs a contestant until its host has left it nearly all of the processors' time.

    Returns:
        The figures of the run of which least was stolen, and how much that was; None
        if one has failed.
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
        _tell(f"{contestant.name}: not clean, {figures['stolen_percent']:.0f}% stolen")
    return best


def _run(
    pythons: dict[str, str], contestant: Contestant, command: list[str]
) -> str | None:
    """Runs a program in the environment that it sets itself.

    Returns:
        What it prints; None if it is another's and has failed.
    """
    is_own = contestant.peer in (OURS, MACHINE)
    finished = subprocess.run(
        [pythons[contestant.peer], _path(command[0]), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        env={
            "TF_CPP_MIN_LOG_LEVEL": "3",
            # For every TensorFlow: some processors have it on by default.
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
        _tell(message)
        return None
    return finished.stdout


def _path(program: str) -> Path:
    return Path(__file__).with_name(program)


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
