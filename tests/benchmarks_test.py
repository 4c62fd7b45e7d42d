"""Tests of the benchmark programs at toy size, and of tables and ratios."""

import argparse
import importlib
import json
import os
import re
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
        ("train_t2t_keras", ["--steps=2", "--precision=bfloat16", "--devices=2"]),
        ("decode_t2t_keras", ["--sentences=6", "--streams=2", "--output_length=70"]),
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
    assert figures["processor_rate"] > 0
    assert figures["peak_memory_mb"] > 1
    assert ("first_step_seconds" in figures) is name.startswith("train")


def test_ratios_compare_adjacent_runs(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    tables, workloads = map(importlib.import_module, ("tables", "workloads"))

    def runs(*rates):
        return [{"rate": r, "peak_memory_mb": 5.0, "version": "1"} for r in rates]

    ours, theirs = workloads.OURS, workloads.Contestant("theirs", "theirs", [])
    workload = workloads.Workload(
        "things", 2e9, "float32", [theirs._replace(name=ours), theirs]
    )
    # The machine doubles its speed from round to round.
    found = {"machine": runs(1e11, 2e11, 4e11)}
    found |= {ours: runs(20, 40, 80), "theirs": runs(10, 20, 40)}
    table = tables.rate_table("work", workload, found)
    assert "| theirs (1) | 20.0 | 2.00 x | 5 MB | 20% |" in table
    assert f"| {ours} (1) | 40.0 |  | 5 MB | 40% |" in table
    assert "The limit is 100.0: 200 GFLOP/s" in table
    # Rates per second of processor time, for programs that report it.
    for run in found[ours] + found["theirs"]:
        run["processor_rate"] = run["rate"] / (2 if run in found[ours] else 1)
    table = tables.rate_table("work", workload, found)
    assert "| theirs (1) | 20.0 | 2.00 x | 20.0 | 1.00 x | 5 MB | 20% |" in table
    for run in found[ours]:
        del run["processor_rate"]
    table = tables.rate_table("work", workload, found)
    assert "| theirs (1) | 20.0 | 2.00 x | 20.0 |  | 5 MB | 20% |" in table
    assert f"| {ours} (1) | 40.0 |  |  |  | 5 MB | 40% |" in table


def test_ratios_compare_with_the_run_before(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    tables, workloads = map(importlib.import_module, ("tables", "workloads"))
    names = (workloads.OURS, "a", "b")
    workload = workloads.Workload(
        "things", 0, "float32", [workloads.Contestant(n, n, []) for n in names]
    )
    ours, a, b = names
    assert [run.name for run in workload.runs()] == [ours, a, ours, b]
    # The machine is four times as fast when b runs.
    rates = {ours: [20, 80, 20, 80], a: [10, 10], b: [40, 40]}
    found = {
        name: [{"rate": r, "peak_memory_mb": 5.0, "version": "1"} for r in of_name]
        for name, of_name in rates.items()
    }
    table = tables.rate_table("work", workload, found)
    assert "| a (1) | 10.0 | 2.00 x |" in table
    assert "| b (1) | 40.0 | 2.00 x |" in table
    assert "| b" not in tables.rate_table(
        "work", workload, {ours: found[ours], a: found[a]}
    )


def load_bench(monkeypatch, folder, programs):
    """Writes programs and returns the modules `bench` and `workloads`."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name, program in programs.items():
        (folder / name).write_text(program)
    bench, workloads = map(importlib.import_module, ("bench", "workloads"))
    monkeypatch.setattr(bench, "_path", folder.joinpath)
    return bench, workloads


def test_failing_rival_is_skipped(monkeypatch, tmp_path, capsys):
    programs = {
        "ours.py": "import json; print('noise'); print(json.dumps({'rate': 2}))",
        "theirs.py": "raise SystemExit('out of memory')",
    }
    bench, workloads = load_bench(monkeypatch, tmp_path, programs)
    ours, theirs = workloads.OURS, "theirs"
    workload = workloads.Workload(
        "things",
        0,
        "float32",
        [
            workloads.Contestant(ours, ours, ["ours.py"]),
            workloads.Contestant(theirs, theirs, ["theirs.py"]),
        ],
    )
    arguments = argparse.Namespace(rounds=2, output=tmp_path)
    found = bench.measure("work", workload, arguments)
    assert [run["rate"] for run in found.pop(ours)] == [2, 2]
    assert not found
    assert "out of memory" in capsys.readouterr().err
    recorded = (tmp_path / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in recorded] == [1, 2]

    broken = workload._replace(
        contestants=[
            workloads.Contestant(ours, ours, ["theirs.py"]),
            workloads.Contestant(theirs, theirs, ["ours.py"]),
        ]
    )
    with pytest.raises(SystemExit, match="out of memory"):
        bench.measure("work", broken, arguments)


def test_setup_runs_once_per_contestant_setup(monkeypatch, tmp_path, capsys):
    programs = {
        "make.py": "open('made', 'a').write('once ')",
        "ours.py": "import json; print(json.dumps({'rate': len(open('made').read())}))",
        "broken.py": "raise SystemExit(1)",
    }
    bench, workloads = load_bench(monkeypatch, tmp_path, programs)
    monkeypatch.chdir(tmp_path)
    one = workloads.Contestant(workloads.OURS, workloads.OURS, ["ours.py"], ["make.py"])
    rivals = [
        one._replace(name="a"),
        *(one._replace(name=n, peer="theirs", setup=["broken.py"]) for n in ("b", "c")),
    ]
    workload = workloads.Workload("things", 0, "float32", [one, *rivals])
    arguments = argparse.Namespace(rounds=1, output=tmp_path)
    found = bench.measure("work", workload, arguments)
    assert {name: runs[0]["rate"] for name, runs in found.items()} == {
        one.name: len("once "),
        "a": len("once "),
    }
    logged = capsys.readouterr().err
    assert all(logged.count(f"Continuing without {name}.") == 1 for name in ("b", "c"))
    broken = workload._replace(contestants=[one._replace(setup=["broken.py"])])
    with pytest.raises(SystemExit):
        bench.measure("work", broken, arguments)


def test_against_selects_rivals_by_name(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    bench = importlib.import_module("bench")
    measured = {}

    def measure(name, work, arguments):
        measured[name] = {contestant.name for contestant in work.runs()}
        figures = ("rate", "peak_memory_mb", "step_seconds", "seconds")
        run = {"version": "1", **dict.fromkeys(figures, 1.0)}
        return {key: [run] for key in [*measured[name], "machine"]}

    def run(*flags):
        monkeypatch.setattr(sys, "argv", ["bench.py", f"--output={tmp_path}", *flags])
        bench.main()

    monkeypatch.setattr(bench, "measure", measure)
    run("--against=tf-models")
    assert measured["training, float32"] == {"t2t_keras", "tf-models"}
    assert measured["decoding, greedy, float32"] == {"t2t_keras"}
    assert "tf-models, 1024" in measured["growth, sentence length"]
    assert measured["growth, output length"] == {
        f"t2t_keras, {length}" for length in (10, 40, 160)
    }
    tables = (tmp_path / "results.md").read_text()
    assert all(f"### {name}" in tables for name in measured)
    with pytest.raises(SystemExit):
        run("--only=training", "--against=nobody")
    assert "nobody" in capsys.readouterr().err


@pytest.mark.parametrize(
    # Used and stolen ticks of each run, and the index of the run that counts.
    ("shares", "counts"),
    [
        ([(50, 50), (90, 10), (100, 1)], 2),
        ([(50, 50), (90, 10), (50, 50), (80, 20)], 1),
    ],
)
def test_run_is_repeated_while_the_host_is_busy(shares, counts, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    bench, stolen, workloads = map(
        importlib.import_module, ("bench", "stolen", "workloads")
    )
    clock = [times for share in shares for times in ((0, 0), share)]
    rates = iter(range(len(shares)))
    monkeypatch.setattr(stolen, "times", lambda: stolen.Times(*clock.pop(0)))
    monkeypatch.setattr(bench, "_run", lambda *_: f'{{"rate": {next(rates)}}}')
    figures = bench._clean_run({}, workloads.Contestant("one", "one", []))
    assert figures["rate"] == counts
    used, stolen_ticks = shares[counts]
    share = 100 * stolen_ticks / (used + stolen_ticks)
    assert figures["stolen_percent"] == pytest.approx(share)
    assert not clock


def test_stolen_time_is_measured_and_reported(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    stolen, tables, workloads = map(
        importlib.import_module, ("stolen", "tables", "workloads")
    )
    stat = tmp_path / "stat"
    monkeypatch.setattr(stolen, "_STAT", stat)
    assert stolen.times() == (0, 0)
    stat.write_text("cpu  1 2 4 1000 2000 8 16 32 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    assert stolen.times() == (1 + 2 + 4 + 8 + 16, 32)
    workload = workloads.Workload(
        "things", 0, "float32", [workloads.Contestant("one", "one", [])]
    )
    run = {"rate": 1.0, "peak_memory_mb": 5.0, "version": "1", "stolen_percent": 2.9}
    table = tables.rate_table("work", workload, {"one": [run]})
    assert "host" not in table
    busy = [run, run | {"stolen_percent": 41.0}, run | {"stolen_percent": 3.0}]
    table = tables.rate_table("work", workload, {"one": busy})
    assert "In 2 of 3 runs, the host took 3% or more" in table
    assert "at most 41%." in table


def test_growth_has_a_row_for_each_value(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    tables, growth, workloads = map(
        importlib.import_module, ("tables", "growth", "workloads")
    )
    work = growth.Growth(
        "tokens",
        {16: ["--length=16"], 1024: ["--length=1024"]},
        [workloads.Contestant(name, name, ["train.py"]) for name in ("a", "b")],
        [growth.Figure("step_seconds", "s", 1), growth.Figure("peak_memory_mb", "MB")],
    )
    assert [(run.name, run.command) for run in work.runs()] == [
        ("a, 16", ["train.py", "--length=16"]),
        ("b, 16", ["train.py", "--length=16"]),
        ("a, 1024", ["train.py", "--length=1024"]),
        ("b, 1024", ["train.py", "--length=1024"]),
    ]
    found = {
        run.name: [{"step_seconds": number + more, "peak_memory_mb": 5000.0}]
        + [{"step_seconds": number, "peak_memory_mb": 3000.0}] * 2
        for number, run in enumerate(work.runs(), 1)
        for more in (100,)
    }
    table = tables.growth_table("work", work, found)
    assert "| tokens | a, s | a, MB | b, s | b, MB |" in table
    assert "| 16 | 1.0 | 3,000 | 2.0 | 3,000 |" in table
    assert "| 1,024 | 3.0 | 3,000 | 4.0 | 3,000 |" in table
    # The limit is the operations at a value divided by the rate of the machine.
    found["machine"] = [{"rate": 8.0}]
    # The ratios by round are 103 / 103, 4 / 3 and 4 / 3.
    limited = work._replace(flops=lambda length: length)
    table = tables.growth_table("work", limited, found)
    assert "| b, MB | speed-up of a | limit, s |" in table
    assert "| 1,024 | 3.0 | 3,000 | 4.0 | 3,000 | 1.33 x | 128.00 |" in table
    del found["b, 1024"]
    table = tables.growth_table("work", limited, found)
    assert "| 1,024 | 3.0 | 3,000 | failed | failed |  | 128.00 |" in table


def test_every_workload_is_plotted(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    draw, growth, workloads = map(
        importlib.import_module, ("draw", "growth", "workloads")
    )
    run = {"rate": 3.0, "seconds": 2.0, "step_seconds": 1.0}
    found = {}
    for name in ("training, float32", "growth, batch", "start-up"):
        work = {**workloads.WORKLOADS, **growth.GROWTHS}[name]
        contestants = work.runs() if name in growth.GROWTHS else work.contestants
        found[name] = work, {c.name: [run] for c in contestants}
    draw.draw(found, [tmp_path / "all.svg"])
    picture = (tmp_path / "all.svg").read_text()
    for text in (*found, "tf-models", "translate"):
        assert f"<!-- {text}" in picture, text


def test_start_up_covers_every_stage(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    growth = importlib.import_module("growth")
    setup = BENCHMARKS.with_name("setup.py").read_text()
    stages = re.findall(r'"(\w+)"', setup.partition("STAGES = (")[2].partition(")")[0])
    assert sorted(growth.STAGES) == sorted(stages)


@pytest.mark.parametrize("name", ["training, float32", "decoding, beam 4, bfloat16"])
def test_flops_match_hand_computed_products(monkeypatch, name):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    workloads = importlib.import_module("workloads")

    # Parameters: 18.9 and 25.2 million without embeddings, 4.1 million for the logits.
    encoder, decoder, logits = 18.9e6, 25.2e6, 4.1e6
    if name.startswith("training"):
        # The backward pass counts twice. Half of the tokens are on either side.
        expected = 3 * (encoder + decoder + logits)
    else:
        # Keys and values of the source are computed per sentence, not per beam.
        memory = 6 * 2 * 512**2
        expected = 2 * (24 * (encoder + memory) + 80 * (decoder - memory + logits))
    assert workloads.WORKLOADS[name].flops == pytest.approx(expected, rel=0.03)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
