"""Figures of many runs as tables in Markdown."""

import statistics
from collections.abc import Sequence
from typing import Any

from growth import Growth, run_name
from workloads import Workload

Runs = dict[str, list[dict[str, Any]]]
"""The figures of each contestant, round by round."""

MACHINE = "machine"

_MORE = {"first_step_seconds": "first step, s", "padding_percent": "padding, %"}
"""What some programs report beside their rate."""


def median(runs: list[dict[str, Any]], figure: str = "rate") -> float:
    """Returns the median of a figure over the rounds."""
    return statistics.median(run[figure] for run in runs)


def rate_table(name: str, workload: Workload, runs: Runs) -> str:
    """Returns a workload's table: rates, and how much faster this project is."""
    ours = workload.contestants[0].name
    more = [key for key in _MORE if any(key in r[0] for r in runs.values())]
    limit = workload.flops and median(runs[MACHINE]) / workload.flops
    titles = ["", f"{workload.unit} a second", f"{ours} is faster", "peak memory"]
    titles += [_MORE[key] for key in more] + ["of the limit"] * bool(limit)
    rows = []
    for contestant in workload.contestants:
        found = runs[contestant.name]
        rate = median(found)
        # Of neighbours in time, so that the machine's own drift cancels out.
        ratio = statistics.median(
            mine["rate"] / theirs["rate"]
            for mine, theirs in zip(runs[ours], found, strict=True)
        )
        cells = [
            f"{contestant.name} ({found[0]['version']})",
            f"{rate:,.{0 if rate > 100 else 1}f}",
            "" if contestant.name == ours else f"{ratio:.2f} x",
            f"{median(found, 'peak_memory_mb'):,.0f} MB",
        ]
        cells += [f"{median(found, k):.1f}" if k in found[0] else "" for k in more]
        rows.append([*cells, f"{100 * rate / limit:.0f}%"] if limit else cells)
    lines = [f"### {name}", "", *_table(titles, rows), ""]
    if limit:
        lines += [
            f"The limit is {limit:,.{0 if limit > 100 else 1}f}: "
            f"{median(runs[MACHINE]) / 1e9:,.0f} GFLOP/s of matrix multiplication in "
            f"{workload.precision}, {workload.flops / 1e6:,.0f} MFLOP for one.",
            "",
        ]
    return "\n".join(lines)


def growth_table(name: str, growth: Growth, runs: Runs) -> str:
    """Returns a growth's table: a row for each value."""
    columns = [(c, figure) for c in growth.contestants for figure in growth.figures]
    titles = [growth.axis, *(f"{c.name}, {figure.title}" for c, figure in columns)]
    rows = []
    for value in growth.flags:
        found = [median(runs[run_name(c, value)], f.key) for c, f in columns]
        cells = [f"{value:,}" if isinstance(value, int) else value]
        for number, (_, figure) in zip(found, columns, strict=True):
            cells.append(f"{number:,.{figure.digits}f}")
        if growth.flops and isinstance(value, int):
            seconds = growth.flops(value) / median(runs[MACHINE])
            cells += [
                f"{found[len(growth.figures)] / found[0]:.2f} x",
                f"{seconds:.2f}",
            ]
        rows.append(cells)
    if growth.flops:
        titles += [f"{growth.contestants[0].name} is faster", "the limit, s"]
    return "\n".join([f"### {name}", "", *_table(titles, rows), ""])


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [titles, ["---"] * len(titles), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
