"""Tests of t2t-cost, for presets and for trained models."""

import json
import re
import sys

import command
import pytest


def test_preset_cost_is_printed_beside_the_papers():
    output = command.stage("cost", "--preset=base").stdout
    assert "base: 63,045,632 parameters, 100,000 steps, 5e+09 tokens" in output
    costs = dict(re.findall(r"^\| (.+?) \| ([\d.e+]+) \|", output, re.MULTILINE))
    # 6 FLOPs for each of 63 million weights at each of 2.5e9 positions.
    assert costs == {
        "base": "9.5e+17",
        "the paper's base": "3.3e+18",
        "the paper's big": "2.3e+19",
    }


def test_single_flags_override_the_preset():
    flags = ["--preset=tiny", "--vocab_size=1000", "--d_ff=1024", "--train_steps=10"]
    output = command.stage("cost", *flags, "--mean_length=8").stdout
    # 8 blocks of d_ff 1,024 rather than 256, and 1,000 tokens rather than 8,000.
    more = 8 * (2 * 128 + 1) * (1024 - 256) - 7000 * 128
    plain = command.stage("cost", "--preset=tiny").stdout
    base_cost, scaled_cost = (
        int(re.search(r": ([\d,]+) parameters", text)[1].replace(",", ""))
        for text in (plain, output)
    )
    assert scaled_cost == base_cost + more
    # A batch has 2,048 tokens per side.
    assert "10 steps, 4.1e+04 tokens" in output


def test_r_drop_doubles_the_cost():
    plain, dropped = (
        re.search(r"\| tiny \| ([\d.e+]+) \|", command.stage("cost", *flags).stdout)[1]
        for flags in (["--preset=tiny"], ["--preset=tiny", "--r_drop=5"])
    )
    assert float(dropped) == pytest.approx(2 * float(plain), rel=0.05)


def test_model_cost_counts_the_steps_and_tokens_of_its_training(tmp_path):
    command.prepare_words(tmp_path, train=100)
    trained = command.stage(
        "train",
        f"--data_dir={tmp_path}/data",
        f"--model_dir={tmp_path}/model",
        *["--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"],
        *["--batch_tokens=128", "--train_epochs=3"],
    )
    model = f"--model_dir={tmp_path}/model"
    output = command.stage("cost", model).stdout
    steps = re.search(r"Trained (\d+) steps", trained.stderr)[1]
    train = json.loads((tmp_path / "data" / "manifest.json").read_text())["splits"][
        "train"
    ]
    # Plus an end token per sentence.
    tokens = 3 * (train["source_tokens"] + train["target_tokens"] + 2 * train["pairs"])
    assert f"parameters, {steps} steps, {tokens:.3g} tokens" in output
    # The same figure that training reported at its start.
    flops = re.search(r"total FLOPs ([\d.e+]+)", trained.stderr)[1]
    assert f"| {tmp_path}/model | {flops} | counted" in output
    for path in (tmp_path / "model" / "checkpoints").iterdir():
        path.unlink()
    process = command.stage("cost", model, status=2)
    assert f"{tmp_path}/model has no checkpoint yet" in process.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model_dir=/no/such"], "/no/such holds no model"),
        (["--preset=base", "--num_heads=7"], "d_model=512, num_heads=7"),
        (["--mean_length=0"], "--mean_length=0"),
        (["--model_dir=/x", "--d_ff=8", "--mean_length=9"], "--d_ff, --mean_length"),
        (["--model_dir=/x", "--preset=base"], "Remove --preset."),
    ],
)
def test_invalid_flags_are_named(arguments, message):
    assert message in command.stage("cost", *arguments, status=2).stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
