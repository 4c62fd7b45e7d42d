"""What the programs on real text read, made once of Multi30k's files.

python benchmarks/multi30k.py DIR

DIR has train.en.gz, train.de.gz, val.en.gz, val.de.gz and test_2016_flickr.en.gz. In
.bench/multi30k a vocabulary of 8,000 is learned, the text is prepared, and a base
model takes a single step: what its weights are does not matter to the time it takes.
"""

import gzip
import subprocess
import sys
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[1] / ".bench" / "multi30k"
DATA, MODEL, EXPORT = (DIRECTORY / name for name in ("data", "model", "export"))
SENTENCEPIECE = DATA / "tokenizer" / "shared.model"
VOCABULARY = DIRECTORY / "vocabulary.txt"
TRAIN = DIRECTORY / "train.en", DIRECTORY / "train.de"
TEST = DIRECTORY / "test.en"
OUTPUT_TOKENS = 16
"""Steps of every search: random weights would not end an output by themselves."""
SEARCH = [
    "--beam_size=4",
    f"--min_length={OUTPUT_TOKENS - 1}",
    f"--max_output_tokens={OUTPUT_TOKENS}",
]


def command(stage: str, *arguments: str) -> list[str]:
    """Returns the command line of a stage."""
    return [sys.executable, "-m", f"t2t_keras.pipelines.{stage}", *arguments]


def make(source: Path) -> None:
    """Makes whatever is missing.

    Args:
        source: The folder of Multi30k's files.
    """
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, path in {
        "train.en": TRAIN[0],
        "train.de": TRAIN[1],
        "test_2016_flickr.en": TEST,
    }.items():
        path.write_bytes(gzip.decompress((source / f"{name}.gz").read_bytes()))
    files = [
        f"--{split}_{side}={source / name}.{language}.gz"
        for split, name in (("train", "train"), ("dev", "val"))
        for side, language in (("source", "en"), ("target", "de"))
    ]
    stages = {
        DATA / "manifest.json": [
            *("prepare", "--corpus=text", *files, f"--data_dir={DATA}"),
            "--vocab_size=8000",
            # Others read one model for both sides.
            *("--source_normalization=nmt_nfkc", "--target_normalization=nmt_nfkc"),
        ],
        MODEL / "checkpoints" / "weights-00000001.npz": [
            *("train", "--preset=base", f"--data_dir={DATA}", f"--model_dir={MODEL}"),
            *("--train_steps=1", "--batch_tokens=256", "--bleu_sentences=0"),
        ],
    }
    for made, stage in stages.items():
        if not made.exists():
            subprocess.run(command(*stage), check=True)
    from t2t_keras.model_dir import ModelDir

    pieces = ModelDir(MODEL).tokenizers.target.pieces()
    # As OpenNMT-tf and CTranslate2 want them: without the four ids that are special.
    VOCABULARY.write_text(
        "".join(f"{p}\n" for p in ["<blank>", "<s>", "</s>", *pieces[4:]])
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]))
