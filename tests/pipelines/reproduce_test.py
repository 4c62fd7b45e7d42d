"""Runs the recipes of docs/reproduce.md line by line at toy size."""

import gzip
import json
import re
import shlex
import sys
from pathlib import Path

import command
import pytest
import tensorflow_datasets as tfds

PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"
# Flags that make each stage small. All other flags are those of the page.
TOY = {
    "prepare": ["--vocab_size=120"],
    "train": [
        *("--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"),
        *("--train_steps=4", "--checkpoint_steps=1", "--batch_tokens=64"),
        *("--bleu_sentences=0", "--devices=2", "--precision=float32"),
    ],
    "average": [],
    "evaluate": [],
    "parse": [],
}


def recipe(title):
    """Returns the name and the arguments of each command in a section."""
    section = re.split(r"^#+ ", PAGE.read_text(), flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith(f"{title}\n"))
    (block,) = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = block.replace("\\\n", " ").splitlines()
    return [
        (words[0].removeprefix("t2t-"), words[1:]) for words in map(shlex.split, lines)
    ]


def write_wmt14(data_dir, lang):
    """Writes a small wmt14_translate in the format of tensorflow-datasets."""

    def examples(split, number):
        return [
            (
                i,
                {
                    lang: f"{split} Satz-Nummer {i}: gut.",
                    "en": f"{split} sentence {i}.",
                },
            )
            for i in range(number)
        ]

    tfds.dataset_builders.store_as_tfds_dataset(
        name="wmt14_translate",
        config=f"{lang}-en",
        version="1.0.0",
        features=tfds.features.Translation(languages=(lang, "en")),
        split_datasets={
            "train": examples("train", 60),
            "validation": examples("dev", 6),
            "test": examples("test", 6),
        },
        data_dir=str(data_dir),
    )


@pytest.mark.parametrize(
    ("lang", "sections"),
    [
        ("de", ["English to German, base", "English to German, big"]),
        # The big model differs only in the preset.
        pytest.param("fr", ["English to French, base"], marks=pytest.mark.long),
    ],
)
def test_wmt14_recipe_runs_from_data_to_scores(tmp_path, monkeypatch, lang, sections):
    write_wmt14(tmp_path / "tfds", lang)
    monkeypatch.chdir(tmp_path)
    stages = [stage for title in sections for stage in recipe(title)]
    trained = ["train", "average", "evaluate"] * len(sections)
    assert [name for name, _ in stages] == ["prepare", *trained]
    for name, arguments in stages:
        more = [f"--tfds_data_dir={tmp_path}/tfds"] if name == "prepare" else []
        finished = command.stage(name, *arguments, *TOY[name], *more, extras=["moses"])
        if name == "evaluate":
            (scores,) = (a for a in arguments if a.startswith("--scores="))
            names = scores.removeprefix("--scores=").split(",")
            output = [line.split()[0] for line in finished.stdout.splitlines()]
            assert output[: len(names)] == names
            assert "perplexity" in finished.stdout
    for directory in tmp_path.glob(f"en{lang}_*"):
        config = json.loads((directory / "config.json").read_text())
        assert config["data"]["corpus"] == f"tfds:wmt14_translate/{lang}-en"
        is_big = directory.name.endswith("big")
        assert config["run"]["average_last"] == (20 if is_big else 5)
        assert config["model"]["dropout"] == (0.3 if is_big else 0.1)


@pytest.mark.long
def test_multi30k_recipe_runs(tmp_path, monkeypatch):
    """Runs the recipe for German and, as the page suggests, for French."""
    for name, pairs in {"train": 60, "val": 6, "test_2016_flickr": 6}.items():
        for lang, text in {
            "en": "two dogs run .",
            "de": "zwei hunde .",
            "fr": ".",
        }.items():
            lines = "".join(f"{text} {i}\n" for i in range(pairs)).encode()
            path = tmp_path / f"{name}.lc.norm.tok.{lang}.gz"
            path.write_bytes(gzip.compress(lines))
    monkeypatch.chdir(tmp_path)
    stages = recipe("A table of another paper, on two cores")
    assert [name for name, _ in stages] == ["prepare", "train", "average", "evaluate"]
    for lang in ("de", "fr"):
        for name, arguments in stages:
            words = [
                re.sub(r"(?<=[.=])de(?=$|\.gz)", lang, a)
                for a in arguments
                if not a.startswith("--checkpoint_steps")
            ]
            for flag in ("--data_dir", "--model_dir"):
                words = [a.replace(f"{flag}=", f"{flag}={lang}_") for a in words]
            finished = command.stage(name, *words, *TOY[name])
        assert finished.stdout.split()[0] == "bleu_none"
        config = json.loads(
            (tmp_path / f"{lang}_multi30k_model/config.json").read_text()
        )
        assert config["data"]["target_lang"] == lang


@pytest.mark.long
def test_parsing_recipe_runs(tmp_path, monkeypatch):
    tree = "(S (NP (DT the) (NN dog)) (VP (VBZ runs)) (. .))\n"
    for section in ("02-21", "22", "23"):
        (tmp_path / "wsj" / section).mkdir(parents=True)
        (tmp_path / "wsj" / section / "all.mrg").write_text(tree * 20)
    monkeypatch.chdir(tmp_path)
    stages = recipe("English constituency parsing (section 6.3, Table 4)")
    assert [name for name, _ in stages] == ["prepare", "train", "average", "parse"]
    for name, arguments in stages:
        finished = command.stage(name, *arguments, *TOY[name])
    assert "f1" in finished.stdout.lower()


def test_big_french_recipe_differs_from_the_base_one_only_in_names():
    renamed = [
        (
            name,
            [
                a.replace("base_en_fr", "big_en_fr").replace("_base", "_big")
                for a in arguments
            ],
        )
        for name, arguments in recipe("English to French, base")
        if name != "prepare"
    ]
    assert renamed == recipe("English to French, big")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
