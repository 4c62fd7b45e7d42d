"""Markdown tables of the measurements."""

import statistics
from collections.abc import Sequence
from typing import Any

from growth import Growth, run_name
from stolen import CLEAN
from workloads import Workload

Runs = dict[str, list[dict[str, Any]]]
"""Figures of each contestant by round."""

MACHINE = "machine"

_RATES = {"rate": "per second", "processor_rate": "per second of CPU time"}
"""Processor time is the time used by the threads of the process, including spinning.

It remains meaningful for runs from which the host took time. Programs that measure a
whole command do not report it.
"""

_MORE = {"first_step_seconds": "first step, s", "padding_percent": "padding, %"}
"""Further figures that some programs report."""


def median(runs: list[dict[str, Any]], figure: str = "rate") -> float:
    """Returns the median of a figure over the rounds."""
    return statistics.median(run[figure] for run in runs)


def rate_table(title: str, workload: Workload, runs: Runs) -> str:
    """Returns the table of a workload: rates and the speed-up of this project."""
    ours, *rivals = (c.name for c in workload.contestants)
    more = [key for key in _MORE if any(key in r[0] for r in runs.values())]
    limit = workload.flops and median(runs[MACHINE]) / workload.flops
    rates = [key for key in _RATES if any(key in r[0] for r in runs.values())]
    titles = [""]
    for key in rates:
        titles += [f"{workload.unit} {_RATES[key]}", f"speed-up of {ours}"]
    titles += ["peak memory", *(_MORE[key] for key in more)]
    titles += ["share of the limit"] * bool(limit)
    rows = []
    for name in (ours, *rivals):
        if name not in runs:
            continue
        found = runs[name]
        cells = [f"{name} ({found[0]['version']})"]
        for key in rates:
            if key not in found[0]:
                cells += ["", ""]
                continue
            rate = median(found, key)
            ratio = ""
            if name in rivals and key in runs[ours][0]:
                before = runs[ours][rivals.index(name) :: len(rivals)]
                ratio = f"{_times(before, found, key):.2f} x"
            cells += [f"{rate:,.{0 if rate > 100 else 1}f}", ratio]
        cells.append(f"{median(found, 'peak_memory_mb'):,.0f} MB")
        cells += [f"{median(found, k):.1f}" if k in found[0] else "" for k in more]
        rows.append([*cells, f"{100 * median(found) / limit:.0f}%"] if limit else cells)
    lines = [f"### {title}", "", *_table(titles, rows), ""]
    if limit:
        lines += [
            f"The limit is {limit:,.{0 if limit > 100 else 1}f}: "
            f"{median(runs[MACHINE]) / 1e9:,.0f} GFLOP/s of matrix multiplication in "
            f"{workload.precision}, {workload.flops / 1e6:,.0f} MFLOP per unit.",
            "",
        ]
    return "\n".join([*lines, *_stolen(runs)])


def _stolen(runs: Runs) -> list[str]:
    """Returns a note on runs that were not clean, or nothing."""
    shares = [run.get("stolen_percent", 0) for found in runs.values() for run in found]
    busy = sum(share >= CLEAN for share in shares)
    if not busy:
        return []
    return [
        f"In {busy} of {len(shares)} runs, the host took {CLEAN:.0f}% or more of the "
        f"processor time, at most {max(shares):.0f}%.",
        "",
    ]


def _times(
    runs: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], figure: str
) -> float:
    """Returns the median ratio of runs that are adjacent in time.

    Slow changes in the speed of the machine cancel out.
    """
    return statistics.median(
        run[figure] / other[figure] for run, other in zip(runs, others, strict=True)
    )


def growth_table(title: str, growth: Growth, runs: Runs) -> str:
    """Returns the table of a growing workload, with a row for each value."""
    columns = [(c, figure) for c in growth.contestants for figure in growth.figures]
    titles = [growth.axis, *(f"{c.name}, {figure.title}" for c, figure in columns)]
    rows = []
    for value in growth.flags:
        cells = [f"{value:,}" if isinstance(value, int) else value]
        for contestant, figure in columns:
            found = runs.get(run_name(contestant, value))
            number = found and f"{median(found, figure.key):,.{figure.digits}f}"
            cells.append(number or "failed")
        if growth.flops and isinstance(value, int):
            ours, *theirs = (
                runs.get(run_name(c, value), []) for c in growth.contestants[:2]
            )
            key = growth.figures[0].key
            cells.append(f"{_times(theirs[0], ours, key):.2f} x" if any(theirs) else "")
            cells.append(f"{growth.flops(value) / median(runs[MACHINE]):.2f}")
        rows.append(cells)
    if growth.flops:
        titles += [f"speed-up of {growth.contestants[0].name}", "limit, s"]
    return "\n".join([f"### {title}", "", *_table(titles, rows), "", *_stolen(runs)])


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [titles, ["---"] * len(titles), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
