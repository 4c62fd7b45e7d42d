"""Tests of t2t-complexity, which measures the layers of Table 1."""

import json
import sys

import command
import pytest

from t2t_keras.analysis.layer_complexity import LAYERS

LAYER_ROWS = {
    "self-attention": ["O(n^2 d)", "O(1)", "O(1)"],
    "restricted": ["O(r n d)", "O(1)", "O(n/r)"],
    "LSTM": ["O(n d^2)", "O(n)", "O(n)"],
    "GRU": ["O(n d^2)", "O(n)", "O(n)"],
    "convolution": ["O(k n d^2)", "O(1)", "O(log_k(n))"],
}


def test_tables_show_measured_times_beside_the_papers_complexities(tmp_path):
    output = command.stage(
        "complexity",
        f"--output_dir={tmp_path}/new/out",
        *["--lengths=8,16", "--sizes=8,16", "--window=4", "--repeats=1"],
    )
    out = tmp_path / "new" / "out"
    record = json.loads((out / "complexity.json").read_text())
    assert (record["window"], record["kernel"], record["repeats"]) == (4, 3, 1)
    measured = record["measurements"]
    assert len(measured) == 2 * 2 * len(LAYERS)
    head, *tables = output.stdout.strip().split("\n\n")
    assert head == "r = 4, k = 3"
    assert len(tables) == 2
    for d, table in zip((8, 16), tables, strict=True):
        heading, _, *lines = table.splitlines()
        assert heading.startswith(f"| d = {d} |")
        assert "n = 16" in heading
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
        assert {row[0]: row[1:4] for row in rows} == LAYER_ROWS
        for name, *_, forward, both, growth, slower in rows:
            (last,) = (
                m for m in measured if (m["layer"], m["d"], m["n"]) == (name, d, 16)
            )
            assert forward == f"{1000 * last['forward_seconds']:.2f} ms"
            assert both == f"{1000 * last['training_seconds']:.2f} ms"
            assert growth.startswith("n^")
            assert slower.startswith("n ") is (name != "self-attention")
    assert (out / "complexity.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (out / "complexity.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--output_dir must be given"),
        (["--lengths=64,32", "--output_dir=x"], "--lengths must be at least 2 numbers"),
        (["--sizes=8,12", "--output_dir=x"], "multiples of 8. Received: 12"),
        (["--sizes=8,wide", "--output_dir=x"], "--sizes must be positive integers"),
        (["--window=0", "--output_dir=x"], "--window=0"),
    ],
)
def test_invalid_flags_are_rejected_before_anything_is_written(
    tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    assert message in command.stage("complexity", *arguments, status=2).stderr
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
