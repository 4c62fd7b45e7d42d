"""Plots of the measurements: bars of rates, lines for growing workloads."""

from collections.abc import Sequence
from pathlib import Path

from growth import Growth, run_name
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tables import Runs, median
from workloads import Workload

_OURS, *_OTHERS = "#1f6f78", "#b8bec6", "#8b939e", "#5c636e", "#d3d8de"


def draw(
    found: dict[str, tuple[Workload | Growth, Runs]], paths: Sequence[Path]
) -> None:
    """Draws a panel for each workload.

    Args:
        found: Workload and figures by name.
        paths: Files to write. The extension selects the format.
    """
    heights = [_height(work) for work, _ in found.values()]
    figure = Figure(figsize=(7.5, sum(heights) + 0.7 * len(heights)))
    panels = figure.subplots(len(found), squeeze=False, height_ratios=heights)[:, 0]
    for panel, (name, (work, runs)) in zip(panels, found.items(), strict=True):
        panel.spines[["top", "right"]].set_visible(False)
        if isinstance(work, Workload):
            title = f"{name}: {work.unit} per second"
            names = [c.name for c in work.contestants if c.name in runs]
            _bars(panel, {name: median(runs[name]) for name in names})
        elif _is_of_numbers(work):
            title = f"{name}: {work.figures[0].title}"
            _lines(panel, work, runs)
        else:
            first, ours = work.figures[0], work.contestants[0]
            title = f"{name}: {first.title}"
            values = {
                str(value): median(runs[run_name(ours, value)], first.key)
                for value in work.flags
            }
            _bars(panel, values, highlight_all=True)
        panel.set_title(title, loc="left", fontsize=10)
    figure.tight_layout()
    for path in paths:
        figure.savefig(path, dpi=150)


def _is_of_numbers(growth: Growth) -> bool:
    return all(isinstance(value, int) for value in growth.flags)


def _height(work: Workload | Growth) -> float:
    """Returns the height of a panel in inches."""
    if isinstance(work, Workload):
        return 0.4 * len(work.contestants)
    return 2.4 if _is_of_numbers(work) else 0.25 * len(work.flags)


def _bars(panel: Axes, values: dict[str, float], highlight_all: bool = False) -> None:
    others = _OURS if highlight_all else _OTHERS[0]
    colours = [_OURS] + [others] * (len(values) - 1)
    bars = panel.barh(list(values), list(values.values()), color=colours)
    digits = 0 if max(values.values()) > 100 else 1
    panel.bar_label(bars, fmt=f"{{:,.{digits}f}}", padding=4, fontsize=9)
    panel.invert_yaxis()
    panel.set_xlim(0, 1.15 * max(values.values()))
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)
    panel.tick_params(left=False)


def _lines(panel: Axes, growth: Growth, runs: Runs) -> None:
    values = [int(value) for value in growth.flags]
    for contestant, colour in zip(growth.contestants, [_OURS, *_OTHERS], strict=False):
        figures = {
            value: median(runs[run_name(contestant, value)], growth.figures[0].key)
            for value in values
            if run_name(contestant, value) in runs
        }
        panel.plot(
            [*figures],
            [*figures.values()],
            "o-",
            color=colour,
            label=contestant.name,
        )
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(values, [f"{value:,}" for value in values])
    panel.minorticks_off()
    panel.set_xlabel(growth.axis, fontsize=9)
    panel.legend(frameon=False, fontsize=9)
