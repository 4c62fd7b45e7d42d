"""Measures the layer types of the paper's Table 1 at growing sequence lengths.

t2t-complexity --output_dir=DIR

Prints a table for each layer size, with the measured times beside the paper's
complexities. Writes the measurements to complexity.json and plots of them to
complexity.svg and complexity.png.
"""

import itertools
import json
from typing import TYPE_CHECKING

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import paths
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import standard_streams
from t2t_keras.plurals import counted

if TYPE_CHECKING:
    from t2t_keras.analysis.layer_complexity import Measurement

FLAGS = flags.FLAGS

flags.DEFINE_list(
    "lengths",
    ["64", "128", "256", "512", "1024", "2048"],
    "Sequence lengths n to measure, ascending, at least two.",
)
flags.DEFINE_list("sizes", ["128", "512"], "Layer sizes d to measure, multiples of 8.")
flags.DEFINE_integer(
    "window", 32, "Window r of restricted self-attention, in positions.", 1
)
flags.DEFINE_integer("kernel", 3, "Kernel width k of the convolution, in positions.", 1)
flags.DEFINE_integer(
    "measured_sequences", 1, "Number of sequences in a measured batch.", 1
)
flags.DEFINE_integer(
    "repeats", 5, "Number of runs per measurement, whose median is reported.", 1
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.analysis.complexity_plot import draw_complexity
    from t2t_keras.analysis.layer_complexity import measure
    from t2t_keras.files import make_directory, write_atomically
    from t2t_keras.optional_packages import require_extra

    require_extra("visualize", "t2t-complexity")
    standard_streams.check_output("-")
    lengths, sizes = _numbers("lengths", 2), _numbers("sizes", 1)
    settings = {
        "window": FLAGS.window,
        "kernel": FLAGS.kernel,
        "batch": FLAGS.measured_sequences,
        "repeats": FLAGS.repeats,
    }
    measured = measure(lengths, sizes, **settings)
    directory = make_directory(FLAGS.output_dir)
    measurements = []
    for measurement in measured:
        measurements.append(measurement)
        stage.report(
            f"d {measurement.d:,}, n {measurement.n:,}, {measurement.layer}: "
            f"{1000 * measurement.training_seconds:.2f} ms"
        )
        # Saved after each measurement, so that an interrupted run keeps its results.
        record = {**settings, "measurements": [m._asdict() for m in measurements]}
        write_atomically(
            directory / "complexity.json", json.dumps(record, indent=2).encode()
        )
    draw_complexity(
        measurements, [directory / "complexity.svg", directory / "complexity.png"]
    )
    print(f"r = {FLAGS.window}, k = {FLAGS.kernel}\n")
    for d in sizes:
        print(_table([m for m in measurements if m.d == d], lengths))
    stage.report(f"Wrote complexity.json, .svg and .png: {directory}")


def _numbers(flag: str, min_count: int) -> list[int]:
    values: list[str] = FLAGS[flag].value or []
    if not all(value.isdecimal() and int(value) for value in values):
        raise UserError(
            f"--{flag} must be positive integers, comma-separated. Received: "
            f"{','.join(values)}"
        )
    numbers = [int(value) for value in values]
    if len(numbers) < min_count or any(a >= b for a, b in itertools.pairwise(numbers)):
        raise UserError(
            f"--{flag} must be at least {counted(min_count, 'number')} in ascending "
            f"order. Received: {','.join(values)}"
        )
    return numbers


def _table(measurements: "list[Measurement]", lengths: list[int]) -> str:
    """Returns Table 1 in Markdown, with the measurements beside it."""
    from t2t_keras.analysis.layer_complexity import LAYERS, crossover, exponent

    d = measurements[0].d
    times = {
        name: [m.training_seconds for m in measurements if m.layer == name]
        for name in LAYERS
    }
    lines = [
        f"| d = {d:,} | per layer | sequential | path | forward, n = {lengths[-1]:,} | "
        "forward and backward | grows as | self-attention is slower from |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, kind in LAYERS.items():
        last = next(m for m in measurements[::-1] if m.layer == name)
        crossing = crossover(lengths, times["self-attention"], times[name])
        lines.append(
            f"| {name} | {kind.complexity} | {kind.sequential} | {kind.path} | "
            f"{1000 * last.forward_seconds:.2f} ms | "
            f"{1000 * last.training_seconds:.2f} ms | "
            f"n^{exponent(lengths, times[name]):.1f} | "
            + ("" if name == "self-attention" else _from(crossing, lengths))
            + " |"
        )
    return "\n".join(lines) + "\n"


def _from(crossing: float | None, lengths: list[int]) -> str:
    if crossing is None:
        return f"n > {lengths[-1]:,}"
    return f"n <= {lengths[0]:,}" if crossing <= lengths[0] else f"n = {crossing:,.0f}"


def run() -> None:
    """Console entry point."""
    stage.run(main, __name__, [paths.OUTPUT_DIR], required=["output_dir"])


if __name__ == "__main__":
    run()
