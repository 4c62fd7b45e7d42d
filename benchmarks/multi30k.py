"""Prepares Multi30k for the workloads on real text.

python benchmarks/multi30k.py DIR

DIR contains train.en.gz, train.de.gz, val.en.gz, val.de.gz and test_2016_flickr.en.gz.
The output goes to .bench/multi30k: a vocabulary of 8,000, the prepared data, and a base
model after a single training step, because its weights do not affect the time.
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
"""Number of output tokens, fixed because random weights rarely produce EOS."""
SEARCH = [
    "--beam_size=4",
    f"--min_length={OUTPUT_TOKENS - 1}",
    f"--max_output_tokens={OUTPUT_TOKENS}",
]


def command(stage: str, *arguments: str) -> list[str]:
    """Returns the command line of a stage."""
    return [sys.executable, "-m", f"t2t_keras.pipelines.{stage}", *arguments]


def make(source: Path) -> None:
    """Creates the files that are missing.

    Args:
        source: The folder with Multi30k's files.
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
            # Other software uses one model for both sides.
            *("--source_normalization=nmt_nfkc", "--target_normalization=nmt_nfkc"),
        ],
        MODEL / "checkpoints" / "weights-00000001.npz": [
            *("train", "--preset=base", f"--data_dir={DATA}", f"--model_dir={MODEL}"),
            *("--train_steps=1", "--batch_tokens=256", "--bleu_sentences=0"),
        ],
    }
    for output, stage in stages.items():
        if not output.exists():
            subprocess.run(command(*stage), check=True)
    from t2t_keras.model_dir import ModelDir

    pieces = ModelDir(MODEL).tokenizers.target.pieces()
    # OpenNMT-tf and CTranslate2 need the pieces without our four special tokens.
    VOCABULARY.write_text(
        "".join(f"{p}\n" for p in ["<blank>", "<s>", "</s>", *pieces[4:]])
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]))
