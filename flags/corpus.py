"""Flags of the corpus to read."""

from pathlib import Path
from typing import Any

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import languages

FLAGS = flags.FLAGS
_SPLITS = ("train", "dev", "test")

flags.DEFINE_string(
    "corpus",
    "cldr",
    "Corpus to read: cldr (built in), text (your own files), treebank (your own "
    "trees) or tfds:NAME (a translation dataset of tensorflow-datasets, such as "
    "tfds:wmt14_translate/de-en).",
)
for _split in _SPLITS:
    flags.DEFINE_list(
        f"{_split}_source",
        [],
        f"Source files of the {_split} split for --corpus=text, comma-separated, plain "
        "text or .gz. Pipes and - (standard input) are read once. Without "
        f"--{_split}_target, the files have two columns separated by a tab.",
    )
    flags.DEFINE_list(
        f"{_split}_target",
        [],
        f"Target files, aligned with --{_split}_source line by line.",
    )
    flags.DEFINE_list(
        f"{_split}_trees",
        [],
        f"Files or folders of bracketed trees of the {_split} split for "
        "--corpus=treebank, comma-separated, plain text or .gz.",
    )
flags.DEFINE_list(
    "train_weights",
    [],
    "Weight of each file of --train_source, comma-separated: the number of times that "
    "its pairs occur in an epoch. 0.5 takes every second pair on average. Default: 1 "
    "for all.",
)
flags.DEFINE_list(
    "train_tags",
    [],
    "Tag of each file of --train_source, comma-separated, such as ,<bt> for real and "
    "back-translated text. It becomes a token before each source. Default: no tags.",
)
flags.DEFINE_integer(
    "tree_substitutions",
    0,
    "Number of additional versions of each training tree of --corpus=treebank, in "
    "which constituents are replaced by those of other trees.",
    0,
)
flags.DEFINE_bool(
    "tree_tags",
    False,
    "Keep part-of-speech tags in the trees of --corpus=treebank. By default, every "
    "tag is XX.",
)
flags.DEFINE_string(
    "tfds_data_dir",
    None,
    "Data directory of tensorflow-datasets. Default: its own default.",
)
flags.DEFINE_integer(
    "cldr_pairs", 100_000, "Number of training pairs of --corpus=cldr.", 1
)
flags.DEFINE_integer("cldr_seed", 0, "Random seed of --corpus=cldr.")


def corpus_arguments() -> dict[str, Any]:
    """Returns the flags as arguments of `open_corpus`.

    Raises:
        UserError: If files are given for another kind of corpus.
    """
    for corpus, kinds in (("text", ("source", "target")), ("treebank", ("trees",))):
        given = [
            f"--{split}_{kind}"
            for split in _SPLITS
            for kind in kinds
            if FLAGS[f"{split}_{kind}"].value
        ]
        if given and FLAGS.corpus != corpus:
            raise UserError(
                f"{', '.join(given)} needs --corpus={corpus}. Received: {FLAGS.corpus}"
            )
    for name in ("train_weights", "train_tags"):
        if FLAGS[name].value and FLAGS.corpus != "text":
            raise UserError(f"--{name} needs --corpus=text. Received: {FLAGS.corpus}")
    return {
        "corpus": FLAGS.corpus,
        "source_lang": languages.SOURCE_LANG.value,
        "target_lang": languages.TARGET_LANG.value,
        "sources": {split: _paths(f"{split}_source") for split in _SPLITS},
        "targets": {split: _paths(f"{split}_target") for split in _SPLITS},
        "train_weights": [_weight(text) for text in FLAGS.train_weights],
        "train_tags": FLAGS.train_tags,
        "trees": {split: _paths(f"{split}_trees") for split in _SPLITS},
        "tree_substitutions": FLAGS.tree_substitutions,
        "tree_tags": FLAGS.tree_tags,
        "tfds_data_dir": FLAGS.tfds_data_dir,
        "cldr_pairs": FLAGS.cldr_pairs,
        "cldr_seed": FLAGS.cldr_seed,
    }


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UserError(f"--train_weights must be numbers. Received: {text}") from error


def _paths(flag: str) -> list[str]:
    # Absolute, since the manifest stores them for use from any directory.
    return [
        "/dev/stdin" if path == "-" else str(Path(path).absolute())
        for path in FLAGS[flag].value or []
    ]
