"""Plots of attention: heat maps, and lines as in figures 3 to 5 of the paper."""

import colorsys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from t2t_keras.analysis.attention_maps import KINDS, AttentionMap
from t2t_keras.files import atomic_writer
from t2t_keras.optional_packages import require_extra

_MIN_WEIGHT = 0.01
# A dollar sign is an ordinary token, not the start of a formula.
_WORDS = {"fontsize": 8, "parse_math": False}
_LABELS = {"fontsize": 7, "parse_math": False}


def head_colours(heads: int) -> list[str]:
    """Returns a distinct colour "#rrggbb" for each head."""
    colours = []
    for head in range(heads):
        # Neighbours also differ in lightness.
        lightness = (0.33, 0.45)[head % 2]
        parts = colorsys.hls_to_rgb(head / heads, lightness, 0.75)
        colours.append("#" + "".join(f"{round(255 * part):02x}" for part in parts))
    return colours


def draw_lines(attention: AttentionMap, paths: Sequence[str | Path]) -> None:
    """Draws attention as lines between words, for all heads and for each head.

    The words on the left attend to the words on the right. The opacity of a line is
    its weight.

    Args:
        attention: Attention of a layer.
        paths: Files to write. The extension, .svg or .png, selects the format.

    Raises:
        MissingExtra: If matplotlib is not installed.
    """
    require_extra("visualize", "Drawing")
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    heads, rows, columns = attention.weights.shape
    colours = head_colours(heads)
    height = 0.19 * max(rows, columns) + 0.45

    def draw(panel: Any, chosen: Sequence[int]) -> None:
        panel.set(xlim=(-1.05, 2.05), ylim=(max(rows, columns) - 0.5, -0.5))
        panel.axis("off")
        for row, token in enumerate(attention.query_tokens):
            panel.text(-0.04, row, token, ha="right", va="center", **_WORDS)
        for column, token in enumerate(attention.key_tokens):
            panel.text(1.04, column, token, ha="left", va="center", **_WORDS)
        lines, tints = [], []
        for head in chosen:
            for row in range(rows):
                for column in range(columns):
                    weight = float(attention.weights[head, row, column])
                    if weight >= _MIN_WEIGHT:
                        lines.append([(0, row), (1, column)])
                        tints.append(to_rgba(colours[head], min(weight, 1)))
        panel.add_collection(LineCollection(lines, colors=tints, linewidths=1.6))

    figure, panels = _panels(attention, heads + 1, 5, 2.5, height)
    draw(panels[0], range(heads))
    panels[0].set_title("all heads", fontsize=9)
    for head in range(heads):
        draw(panels[head + 1], [head])
        panels[head + 1].set_title(f"head {head + 1}", fontsize=9, color=colours[head])
    _save(figure, paths)


def draw_heat_maps(attention: AttentionMap, paths: Sequence[str | Path]) -> None:
    """Draws the weights of each head as a heat map, one row per query token.

    Args:
        attention: Attention of a layer.
        paths: Files to write. The extension, .svg or .png, selects the format.

    Raises:
        MissingExtra: If matplotlib is not installed.
    """
    heads, rows, columns = attention.weights.shape
    colours = head_colours(heads)
    longest = max(map(len, attention.key_tokens))
    width, height = 0.16 * columns + 0.5, 0.16 * rows + 0.3 + 0.065 * longest
    figure, panels = _panels(attention, heads, 4, width, height, share=True)
    for head, panel in enumerate(panels):
        picture = panel.imshow(attention.weights[head], vmin=0, vmax=1, cmap="viridis")
        panel.set_title(f"head {head + 1}", fontsize=9, color=colours[head])
        panel.set_xticks(range(columns), attention.key_tokens, rotation=90, **_LABELS)
        panel.set_yticks(range(rows), attention.query_tokens, **_LABELS)
        panel.tick_params(length=0)
    figure.colorbar(picture, ax=panels, shrink=0.6, pad=0.01).ax.tick_params(
        labelsize=7
    )
    _save(figure, paths)


def _panels(
    attention: AttentionMap,
    number: int,
    max_columns: int,
    width: float,
    height: float,
    share: bool = False,
) -> tuple[Any, list[Any]]:
    """Returns a figure and `number` panels in rows. Sizes are in inches."""
    require_extra("visualize", "Drawing")
    from matplotlib.figure import Figure

    columns = min(max_columns, number)
    rows = -(-number // columns)
    figure = Figure(
        figsize=(columns * width + 0.9, rows * height + 0.5), layout="constrained"
    )
    figure.suptitle(
        f"{KINDS[attention.kind]}, layer {attention.layer + 1}", fontsize=10
    )
    grid = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    panels = list(grid.flat)
    for panel in panels[number:]:
        panel.remove()
    return figure, panels[:number]


def _save(figure: Any, paths: Sequence[str | Path]) -> None:
    from matplotlib import rc_context

    # Keep text as text, to be displayed in the fonts of the viewer.
    with rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
        # Installed fonts may lack a script. SVG and the page do not depend on them.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        for path in paths:
            with atomic_writer(path) as file:
                figure.savefig(file, format=Path(path).suffix[1:], dpi=130)
