"""Runs the whole pipeline on a task with known results: reversing digits."""

import random
import sys

import command
import pytest

VALUES = [
    "--num_layers=2",
    "--d_model=64",
    "--d_ff=256",
    "--num_heads=4",
    "--dropout=0",
    "--label_smoothing=0",
    "--warmup_steps=200",
    "--learning_rate=0.5",
    "--clip_norm=1",
    "--batch_tokens=1024",
]


def write_pairs(directory, split, number, seed):
    rng = random.Random(seed)
    rows = [rng.choices("0123456789", k=rng.randint(1, 7)) for _ in range(number)]
    source, target = directory / f"{split}.source", directory / f"{split}.target"
    source.write_text("".join(f"{''.join(row)}\n" for row in rows))
    target.write_text("".join(f"{''.join(reversed(row))}\n" for row in rows))
    return f"--{split}_source={source}", f"--{split}_target={target}"


@pytest.mark.long
def test_short_training_learns_to_reverse(tmp_path):
    files = [
        flag
        for split, number in (("train", 20_000), ("dev", 100), ("test", 500))
        for flag in write_pairs(tmp_path, split, number, split)
    ]
    data_dir = f"--data_dir={tmp_path / 'data'}"
    model_dir = f"--model_dir={tmp_path / 'model'}"
    command.stage(
        "prepare",
        "--corpus=text",
        "--source_lang=digits",
        "--target_lang=digits",
        # Digits, the word-initial marker, and the four special tokens.
        "--vocab_size=15",
        data_dir,
        *files,
    )
    trained = command.stage(
        "train",
        data_dir,
        model_dir,
        *VALUES,
        "--train_steps=1000",
        "--checkpoint_steps=100",
        "--bleu_sentences=20",
    )
    assert "dev: accuracy" in trained.stderr
    command.stage("average", model_dir, "--last=4")
    source, target = tmp_path / "test.source", tmp_path / "test.target"
    output = tmp_path / "output.gz"
    command.stage("translate", model_dir, f"--input={source}", f"--output={output}")
    stdout = command.stage("translate", model_dir, stdin=source.read_bytes()).stdout
    hypotheses = stdout.splitlines()
    references = target.read_text().splitlines()
    exact = sum(a == b for a, b in zip(hypotheses, references, strict=True))
    assert exact >= 0.99 * len(references), f"{exact} of {len(references)}"

    # The file has the same content as standard output, and evaluate agrees on both.
    plain = tmp_path / "hypotheses.txt"
    plain.write_text(stdout)
    flag_sets = [
        [model_dir, "--split=test"],
        [model_dir, f"--source={source}", f"--reference={target}"],
        [f"--hypothesis={plain}", f"--reference={target}"],
        [f"--hypothesis={output}", f"--reference={target}"],
    ]
    scores = [
        command.stage("evaluate", *flags).stdout.splitlines() for flags in flag_sets
    ]
    # BLEU and chrF, plus the perplexity if there is a model.
    assert {tuple(lines[:2]) for lines in scores} == {tuple(scores[0][:2])}
    assert scores[0][0].startswith("bleu ")
    assert [len(lines) for lines in scores] == [3, 3, 2, 2]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
