"""Every stage computes BLEU with the tokenizer of the target language."""

import json
import sys

import command
import numpy as np
import pytest

from t2t_keras.model_dir import ModelDir

MODEL = ["--num_layers=1", "--d_model=32", "--d_ff=32", "--num_heads=2", "--pre_norm"]
MODEL += ["--dropout=0", "--batch_tokens=512", "--learning_rate=1", "--warmup_steps=20"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A model that translates to Chinese with one or two wrong characters."""
    work = tmp_path_factory.mktemp("work")
    rng = np.random.default_rng(0)
    for split, number in (("train", 300), ("dev", 20)):
        rows = []
        for _ in range(number):
            digits = rng.integers(10, size=2)
            target = "".join("零一二三四五六七八九"[digit] for digit in digits)
            rows.append(f"room {digits[0]} {digits[1]}\t他们今天都在房间里{target}。\n")
        (work / f"{split}.tsv").write_text("".join(rows))
    command.stage(
        "prepare",
        "--corpus=text",
        "--vocab_size=45",
        "--target_lang=zh-CN",
        f"--data_dir={work}/data",
        *(f"--{split}_source={work}/{split}.tsv" for split in ("train", "dev")),
    )
    train(work, "--train_steps=40")
    return work


def train(work, *arguments, status=0):
    return command.stage(
        "train",
        f"--data_dir={work}/data",
        f"--model_dir={work}/model",
        "--early_stop_metric=val_bleu",
        "--checkpoint_steps=40",
        *MODEL,
        *arguments,
        status=status,
    )


def test_training_scores_checkpoints_with_the_tokenizer_of_the_language(work):
    model_dir = ModelDir(work / "model")
    assert model_dir.config["run"]["bleu_tokenizer"] == "zh"
    # With 13a, a sentence is one token, which a single error makes wrong.
    assert model_dir.checkpoints.metrics(40)["val_bleu"] > 30
    rejected = train(work, "--train_steps=41", "--bleu_tokenizer=char", status=2)
    assert "--bleu_tokenizer must be auto or zh" in rejected.stderr


def test_training_started_with_13a_resumes_with_13a(work):
    path = work / "model" / "config.json"
    before = path.read_text()
    config = json.loads(before)
    del config["run"]["bleu_tokenizer"]
    path.write_text(json.dumps(config))
    shown = train(work, "--train_steps=41")
    assert "tokenizer 13a expects spaces between words" in shown.stderr
    assert ModelDir(work / "model").config["run"]["bleu_tokenizer"] == "13a"
    path.write_text(before)


def test_evaluate_uses_the_target_language_of_the_model(work):
    shown = command.stage(
        "evaluate", f"--model_dir={work}/model", "--split=dev", "--scores=bleu,bleu_lc"
    )
    assert shown.stdout.count("|tok:zh|") == 2


@pytest.mark.long
def test_export_and_variations_record_the_tokenizer(work, tmp_path):
    command.stage(
        "export",
        f"--model_dir={work}/model",
        f"--export_dir={tmp_path}/export",
        "--weights_dtype=float16",
        "--nokeras_file",
    )
    card = json.loads((tmp_path / "export/1/assets.extra/model_card.json").read_text())
    assert "|tok:zh|" in card["serving"]["bleu_signature"]
    table = [f"--data_dir={work}/data", f"--output_dir={tmp_path}/rows", "--rows=base"]
    for tokenizer in ("auto", "char"):
        shown = command.stage(
            *("variations", *table, *MODEL, "--train_steps=1"),
            f"--bleu_tokenizer={tokenizer}",
        )
        assert f"|tok:{tokenizer.replace('auto', 'zh')}|" in shown.stdout


def test_evaluate_of_files_uses_target_lang(tmp_path):
    (tmp_path / "hypotheses").write_text("我今天去学校了。\n他喜欢苹果和香蕉。\n")
    (tmp_path / "references").write_text("我今天去学校了。\n他喜欢苹果与香蕉。\n")
    files = [
        f"--hypothesis={tmp_path}/hypotheses",
        f"--reference={tmp_path}/references",
    ]
    files += ["--scores=bleu", f"--baseline={tmp_path}/hypotheses"]
    shown = command.stage("evaluate", *files, "--target_lang=zho_Hant")
    assert shown.stdout.count("|tok:zh|") == 2
    assert shown.stderr == ""
    shown = command.stage("evaluate", *files)
    assert shown.stdout.startswith("bleu 0.00")
    assert "this BLEU is meaningless. Set --target_lang" in shown.stderr
    rejected = command.stage("evaluate", *files, "--bleu_tokenizer=14a", status=2)
    assert "Received: '14a'" in rejected.stderr
    assert rejected.stdout == ""


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
