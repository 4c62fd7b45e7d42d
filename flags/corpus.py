"""Which corpus to read."""

from pathlib import Path
from typing import Any

from absl import flags

FLAGS = flags.FLAGS
_SPLITS = ("train", "dev", "test")

flags.DEFINE_string(
    "corpus",
    "cldr",
    "cldr (the embedded corpus), text (your own files), or tfds:NAME (a translation "
    "dataset of tensorflow-datasets, such as tfds:wmt14_translate/de-en).",
)
flags.DEFINE_string("source_lang", "en", "Language to translate from.")
flags.DEFINE_string("target_lang", "de", "Language to translate to.")
for _split in _SPLITS:
    flags.DEFINE_list(
        f"{_split}_source",
        [],
        f"{_split} files of --corpus=text, comma-separated, plain or .gz. Without "
        f"--{_split}_target, files of two columns divided by a tab.",
    )
    flags.DEFINE_list(f"{_split}_target", [], "The files aligned with them.")
flags.DEFINE_string("tfds_data_dir", None, "Where tensorflow-datasets keeps its data.")
flags.DEFINE_integer("cldr_pairs", 100_000, "Training pairs of --corpus=cldr.", 1)
flags.DEFINE_integer("cldr_seed", 0, "Seed of --corpus=cldr.")


def corpus_arguments() -> dict[str, Any]:
    """Returns the flags as arguments of `open_corpus`.

    Raises:
        ValueError: If there are files for a corpus that reads none.
    """
    given = [
        f"--{split}_{side}"
        for split in _SPLITS
        for side in ("source", "target")
        if FLAGS[f"{split}_{side}"].value
    ]
    if given and FLAGS.corpus != "text":
        raise ValueError(
            f"{', '.join(given)} needs --corpus=text. Received: {FLAGS.corpus}"
        )
    return {
        "corpus": FLAGS.corpus,
        "source_lang": FLAGS.source_lang,
        "target_lang": FLAGS.target_lang,
        "sources": {split: _paths(f"{split}_source") for split in _SPLITS},
        "targets": {split: _paths(f"{split}_target") for split in _SPLITS},
        "tfds_data_dir": FLAGS.tfds_data_dir,
        "cldr_pairs": FLAGS.cldr_pairs,
        "cldr_seed": FLAGS.cldr_seed,
    }


def _paths(flag: str) -> list[str]:
    # The manifest keeps them: they must be found from another directory too.
    return [str(Path(path).absolute()) for path in FLAGS[flag].value or []]
