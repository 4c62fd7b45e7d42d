"""Plots of layer times against length, with the complexities of Table 1."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.analysis.layer_complexity import LAYERS, Measurement, crossover
from t2t_keras.files import atomic_writer
from t2t_keras.optional_packages import require_extra

COLOURS = ("#0072b2", "#009e73", "#d55e00", "#cc79a7", "#e69f00")
"""Colours suitable for colour-blind readers (Okabe and Ito, 2008)."""

_COLUMNS = 3
_SELF_ATTENTION = "self-attention"


def draw_complexity(
    measurements: Sequence[Measurement], paths: Sequence[str | Path]
) -> None:
    """Draws a panel of times for each size and a panel of crossover points.

    A dashed line starts at the last point of a curve and follows the complexity of
    Table 1 back to smaller lengths. Where it departs from the curve, other work than
    the stated operations dominates. The last panel shows, for each size, the length
    from which self-attention is slower than each other layer.

    Args:
        measurements: Measurements of several lengths and one or more sizes.
        paths: Files to write. The extension, .svg or .png, selects the format.

    Raises:
        MissingExtra: If matplotlib is not installed.
    """
    require_extra("visualize", "Drawing")
    from matplotlib.figure import Figure

    sizes = sorted({m.d for m in measurements})
    lengths = sorted({m.n for m in measurements})
    times = {(m.layer, m.d, m.n): 1000 * m.training_seconds for m in measurements}
    curves = {
        (name, d): [times[name, d, n] for n in lengths]
        for name in LAYERS
        for d in sizes
    }
    columns = min(len(sizes) + 1, _COLUMNS)
    rows = -(-(len(sizes) + 1) // columns)
    figure = Figure(figsize=(4.4 * columns, 4 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel in panels[len(sizes) + 1 :]:
        panel.remove()
    for panel, d in zip(panels, sizes, strict=False):
        _draw_times(panel, d, lengths, {name: curves[name, d] for name in LAYERS})
        # The same range for all sizes. Dashed lines may be cut off below.
        panel.set_ylim(0.7 * min(times.values()), 1.4 * max(times.values()))
    _draw_crossovers(panels[len(sizes)], sizes, lengths, curves)
    handles = panels[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=columns, frameon=False)
    for path in paths:
        with atomic_writer(path) as file:
            figure.savefig(file, format=Path(path).suffix[1:], dpi=150)


def _draw_times(
    panel: Any, d: int, lengths: list[int], curves: dict[str, list[float]]
) -> None:
    for colour, (name, kind) in zip(COLOURS, LAYERS.items(), strict=True):
        milliseconds = curves[name]
        label = f"{name}, {kind.complexity.replace('^2', '²')}"
        panel.plot(lengths, milliseconds, "o-", color=colour, label=label, markersize=4)
        guide = [milliseconds[-1] * (n / lengths[-1]) ** kind.power for n in lengths]
        panel.plot(lengths, guide, "--", color=colour, alpha=0.6, linewidth=1)
    panel.plot([], [], "--", color="0.5", linewidth=1, label="grows as stated")
    if lengths[0] <= d <= lengths[-1]:
        panel.axvline(d, color="0.6", linewidth=1, zorder=0)
        # Above the frame, so that it does not cover a curve.
        panel.annotate(
            "n = d",
            (d, 1.01),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="bottom",
            fontsize=8,
            color="0.4",
        )
    panel.set_title(f"d = {d:,}", loc="left", pad=16)
    panel.set(xscale="log", yscale="log")
    panel.set(xlabel="length n", ylabel="forward and backward pass, ms")
    panel.set_xticks(lengths, [f"{n:,}" for n in lengths], rotation=45)
    panel.minorticks_off()
    panel.grid(alpha=0.25)


def _draw_crossovers(
    panel: Any,
    sizes: list[int],
    lengths: list[int],
    curves: dict[tuple[str, int], list[float]],
) -> None:
    beyond = 1.5 * lengths[-1]
    others = [name for name in LAYERS if name != _SELF_ATTENTION]
    left, right = sizes[0] / 1.5, sizes[-1] * 1.5
    for i, name in enumerate(others):
        colour = COLOURS[[*LAYERS].index(name)]
        # Side by side, since all points beyond the measured range have the same height.
        share = 0.025 * (i - (len(others) - 1) / 2)
        x = [d * (right / left) ** share for d in sizes]
        found = [
            crossover(lengths, curves[_SELF_ATTENTION, d], curves[name, d])
            for d in sizes
        ]
        y = [beyond if n is None else n for n in found]
        panel.plot(x, y, "-", color=colour, linewidth=1, alpha=0.6)
        for place, height, n in zip(x, y, found, strict=True):
            marker = "^" if n is None else "v" if n <= lengths[0] else "o"
            panel.plot(place, height, marker, color=colour, markersize=6)
    panel.axline((1, 1), (2, 2), color="0.6", linewidth=1, zorder=0)
    panel.set_title("self-attention is slower from", loc="left", pad=16)
    panel.annotate(
        "▲ longer than measured   ▼ every measured length   grey: n = d",
        (0.5, 0.02),
        xycoords="axes fraction",
        ha="center",
        fontsize=8,
        color="0.4",
    )
    panel.set(xscale="log", yscale="log", xlabel="size d", ylabel="length n")
    panel.set_xlim(left, right)
    panel.set_ylim(lengths[0] / 2, 2 * lengths[-1])
    panel.set_xticks(sizes, [f"{d:,}" for d in sizes])
    panel.set_yticks(lengths, [f"{n:,}" for n in lengths])
    panel.minorticks_off()
    panel.grid(alpha=0.25)
