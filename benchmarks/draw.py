"""Rates of all contestants as bars."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

_OURS, _OTHERS = "#1f6f78", "#b8bec6"


def draw_rates(results: dict[str, dict[str, float]], paths: Sequence[Path]) -> None:
    """Draws a panel for each workload.

    Args:
        results: The rate of each contestant, this project first, by workload;
            "machine" is left out.
        paths: Where to write it; the suffix says as what.
    """
    sizes = [len(rates) - 1 for rates in results.values()]
    figure = Figure(figsize=(7.5, 0.4 * sum(sizes) + 0.7 * len(sizes)))
    panels = figure.subplots(len(results), squeeze=False, height_ratios=sizes)[:, 0]
    for panel, (name, rates) in zip(panels, results.items(), strict=True):
        bars = {who: rate for who, rate in rates.items() if who != "machine"}
        colours = [_OURS, *[_OTHERS] * (len(bars) - 1)]
        drawn = panel.barh(list(bars), list(bars.values()), color=colours)
        panel.bar_label(drawn, fmt="{:,.0f}", padding=4, fontsize=9)
        panel.invert_yaxis()
        panel.set_title(f"{name}, a second", loc="left", fontsize=10)
        panel.set_xlim(0, 1.15 * max(bars.values()))
        panel.set_xticks([])
        panel.spines[["top", "right", "bottom"]].set_visible(False)
        panel.tick_params(left=False)
    figure.tight_layout()
    for path in paths:
        figure.savefig(path, dpi=150)
