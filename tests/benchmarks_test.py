"""The benchmarks' own programs at toy size, and the ratios of their figures."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TOY = ["--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"]
TOY += ["--vocab_size=60", "--batch=4", "--length=6"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("train_t2t_keras", ["--steps=2", "--precision=bfloat16"]),
        ("decode_t2t_keras", ["--sentences=6", "--streams=2", "--threads=1"]),
    ],
)
def test_programs_print_their_figures(name, arguments):
    finished = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", *TOY, *arguments],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"BENCH_STARTED": "0"},
    )
    figures = json.loads(finished.stdout)
    assert figures["rate"] > 0
    assert figures["peak_memory_mb"] > 1
    assert ("first_step_seconds" in figures) is name.startswith("train")


def test_ratios_are_of_neighbours_in_time(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    bench, workloads = map(importlib.import_module, ("bench", "workloads"))

    def runs(*rates):
        return [{"rate": r, "peak_memory_mb": 5.0, "version": "1"} for r in rates]

    ours, theirs = workloads.OURS, workloads.Contestant("theirs", "theirs", [])
    workload = workloads.Workload(
        "things", 2e9, "float32", [theirs._replace(name=ours), theirs]
    )
    # The machine becomes twice as fast from round to round.
    found = {"machine": runs(1e11, 2e11, 4e11)}
    found |= {ours: runs(20, 40, 80), "theirs": runs(10, 20, 40)}
    table = bench.table("work", workload, found)
    assert "| theirs (1) | 20 | 2.00 x | 5 MB |  | 20% |" in table
    assert f"| {ours} (1) | 40 |  | 5 MB |  | 40% |" in table
    assert "The limit is 100: 200 GFLOP/s" in table


@pytest.mark.parametrize("name", ["training, float32", "decoding, beam 4, bfloat16"])
def test_operations_are_those_of_the_products(monkeypatch, name):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    workloads = importlib.import_module("workloads")

    # By hand: parameters without embeddings, 18.9 and 25.2 million; 4.1 of the logits.
    encoder, decoder, logits = 18.9e6, 25.2e6, 4.1e6
    if name.startswith("training"):
        # Forward and twice backward; half of the tokens are on either side.
        expected = 3 * (encoder + decoder + logits)
    else:
        # The memory's keys and values are computed once a sentence, not once a beam.
        memory = 6 * 2 * 512**2
        expected = 2 * (24 * (encoder + memory) + 80 * (decoder - memory + logits))
    assert workloads.WORKLOADS[name].flops == pytest.approx(expected, rel=0.03)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
