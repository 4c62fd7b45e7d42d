"""Runs workloads side by side with other software and prints the ratios.

python benchmarks/bench.py [--rounds=3] [--only=training]

Contestants take turns, one process at a time, so that whatever the machine does meets
all of them; figures are medians over the rounds. Every run is kept in
.bench/results.jsonl; the tables are printed and written to .bench/results.md, drawn in
.bench/results.svg and .png.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import draw
import peers
from workloads import WORKLOADS, Contestant, Workload

Runs = dict[str, list[dict[str, Any]]]
"""The figures of each contestant, round by round."""

MACHINE = "machine"


def main() -> None:
    """Measures what flags ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--only", default="", help="part of the workloads' names")
    parser.add_argument("--output", type=Path, default=peers.BENCH)
    arguments = parser.parse_args()
    chosen = {n: w for n, w in WORKLOADS.items() if arguments.only in n}
    if not chosen:
        parser.error(f"--only is part of {', '.join(WORKLOADS)}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = {}
    for name, workload in chosen.items():
        results[name] = measure(name, workload, arguments)
        tables = "\n".join(table(n, WORKLOADS[n], r) for n, r in results.items())
        (arguments.output / "results.md").write_text(tables)
    sys.stdout.write(tables)
    draw.draw_rates(
        {
            name: {c: median(r) for c, r in runs.items()}
            for name, runs in results.items()
        },
        [arguments.output / "results.svg", arguments.output / "results.png"],
    )


def measure(name: str, workload: Workload, arguments: argparse.Namespace) -> Runs:
    """Runs all contestants in turn, so many rounds."""
    precision = f"--precision={workload.precision}"
    machine = Contestant(MACHINE, MACHINE, ["machine.py", precision])
    everyone = [machine, *workload.contestants]
    pythons = {c.name: peers.python_of(c.peer) for c in everyone}
    runs: Runs = {c.name: [] for c in everyone}
    for number in range(1, arguments.rounds + 1):
        for contestant in everyone:
            found = run(pythons[contestant.name], contestant.command)
            runs[contestant.name].append(found)
            print(
                f"{name}, round {number} of {arguments.rounds}: {contestant.name} "
                f"{found['rate']:.4g}",
                file=sys.stderr,
                flush=True,
            )
            with (arguments.output / "results.jsonl").open("a") as file:
                record = {"workload": name, "contestant": contestant.name, **found}
                file.write(json.dumps(record) + "\n")
    return runs


def run(python: str, command: list[str]) -> dict[str, Any]:
    """Runs a program and returns the figures of its last line."""
    finished = subprocess.run(
        [python, Path(__file__).with_name(command[0]), *command[1:]],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {"BENCH_STARTED": str(time.time()), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if finished.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{finished.stderr[-4000:]}")
    return json.loads(finished.stdout.splitlines()[-1])


def median(runs: list[dict[str, Any]], figure: str = "rate") -> float:
    """Returns the median of a figure over the rounds."""
    return statistics.median(run[figure] for run in runs)


def table(name: str, workload: Workload, runs: Runs) -> str:
    """Returns a workload's table in Markdown."""
    ours = workload.contestants[0].name
    limit = median(runs[MACHINE]) / workload.flops
    lines = [
        f"### {name}",
        "",
        f"| | {workload.unit} a second | {ours} is faster | peak memory | first step | "
        "of the limit |",
        "|---|---|---|---|---|---|",
    ]
    for contestant in workload.contestants:
        found = runs[contestant.name]
        rate = median(found)
        # Of neighbours in time, so that the machine's own drift cancels out.
        ratio = statistics.median(
            mine["rate"] / theirs["rate"]
            for mine, theirs in zip(runs[ours], found, strict=True)
        )
        first = [r["first_step_seconds"] for r in found if "first_step_seconds" in r]
        lines.append(
            f"| {contestant.name} ({found[0]['version']}) | {rate:,.0f} | "
            f"{'' if contestant.name == ours else f'{ratio:.2f} x'} | "
            f"{median(found, 'peak_memory_mb'):,.0f} MB | "
            f"{f'{statistics.median(first):.0f} s' if first else ''} | "
            f"{100 * rate / limit:.0f}% |"
        )
    lines += [
        "",
        f"The limit is {limit:,.0f}: {median(runs[MACHINE]) / 1e9:,.0f} GFLOP/s of "
        f"matrix multiplication in {workload.precision}, {workload.flops / 1e6:,.0f} "
        "MFLOP for one.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
