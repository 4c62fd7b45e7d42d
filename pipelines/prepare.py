"""Prepares a corpus for training: vocabulary, length filter, records of token ids.

t2t-prepare --corpus=cldr --source_lang=en --target_lang=de --data_dir=DIR
"""

import time

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.flags import beam, languages, paths, preset_flag, vocabulary
from t2t_keras.flags import corpus as corpus_flags
from t2t_keras.flags import filters as filter_flags
from t2t_keras.messages import describe
from t2t_keras.pipelines import stage

FLAGS = flags.FLAGS

flags.DEFINE_bool("share_vocabulary", True, "Learn one vocabulary for both languages.")
flags.DEFINE_string(
    "vocabulary_from",
    None,
    "Directory of prepared data or of a model whose vocabulary and normalization to"
    " reuse. Default: learn a vocabulary.",
)
_NORMALIZATIONS = ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"]
flags.DEFINE_integer(
    "vocabulary_pairs",
    1_000_000,
    "Maximum number of training pairs that the vocabulary is learned from, chosen "
    "evenly from a larger corpus.",
    1,
)
flags.DEFINE_enum(
    "source_normalization",
    "nmt_nfkc",
    _NORMALIZATIONS,
    "SentencePiece normalization rule for the source text.",
)
flags.DEFINE_enum(
    "target_normalization",
    "identity",
    _NORMALIZATIONS,
    "SentencePiece normalization rule for the target text. identity keeps "
    "characters that nfkc replaces, such as full-width punctuation. Runs of white "
    "space always become one space.",
)
flags.DEFINE_integer(
    "max_tokens",
    256,
    "Maximum number of tokens per sentence; longer pairs are removed.",
    1,
)
flags.DEFINE_float(
    "max_length_ratio",
    4.0,
    "Maximum ratio of the lengths of a pair in tokens; other pairs are removed.",
    1,
)
flags.DEFINE_float(
    "bpe_dropout",
    None,
    "BPE-dropout (Provilkov et al., 2020): probability that a merge is skipped in "
    "the training text, such as 0.1. Dev and test text is segmented without it. "
    "Default: no BPE-dropout.",
)
flags.DEFINE_integer(
    "segmentations",
    10,
    "Number of segmentations of each training pair with --bpe_dropout. An epoch has"
    " this many times the pairs.",
)
flags.DEFINE_enum(
    "bpe_dropout_sides",
    "both",
    ["both", "source", "target"],
    "Sides that --bpe_dropout applies to.",
)


def main(beam_options: list[str]) -> None:
    """Runs the stage."""
    from t2t_keras.data.bpe_dropout import BpeDropout
    from t2t_keras.data.cleaning_options import CleaningOptions
    from t2t_keras.data.corpus_catalog import open_corpus
    from t2t_keras.data.pair_filters import LengthFilter
    from t2t_keras.data.preparation import prepare
    from t2t_keras.data.prepared_data import TOKENIZER_DIR
    from t2t_keras.data.tokenizer_pair import TokenizerPair

    started = time.monotonic()
    bpe_dropout = None
    if FLAGS.bpe_dropout is not None:
        bpe_dropout = BpeDropout(
            FLAGS.bpe_dropout, FLAGS.segmentations, FLAGS.bpe_dropout_sides
        )
    for name in ("segmentations", "bpe_dropout_sides"):
        if FLAGS[name].present and not bpe_dropout:
            raise UserError(f"--{name} needs --bpe_dropout.")
    chosen = preset_flag.chosen_preset()
    arguments = corpus_flags.corpus_arguments()
    tokenizers = None
    if FLAGS.vocabulary_from:
        for name in ("source_normalization", "target_normalization"):
            if FLAGS[name].present:
                raise UserError(
                    f"--{name} cannot be combined with --vocabulary_from, which "
                    "determines the normalization."
                )
        tokenizers = TokenizerPair.load(f"{FLAGS.vocabulary_from}/{TOKENIZER_DIR}")
    manifest = prepare(
        open_corpus(**arguments),
        FLAGS.data_dir,
        subword=chosen.subword,
        vocab_size=chosen.vocab_size,
        share_vocabulary=FLAGS.share_vocabulary,
        source_normalization=FLAGS.source_normalization,
        target_normalization=FLAGS.target_normalization,
        vocabulary_pairs=FLAGS.vocabulary_pairs,
        tokenizers=tokenizers,
        cleaning=CleaningOptions(**filter_flags.cleaning_arguments()),
        length_filter=LengthFilter(
            max_tokens=FLAGS.max_tokens, max_length_ratio=FLAGS.max_length_ratio
        ),
        bpe_dropout=bpe_dropout,
        corpus_arguments=arguments,
        runner=beam.task_runner(beam_options),
        report=stage.report,
    )
    stage.report(
        f"Prepared {FLAGS.data_dir} in {time.monotonic() - started:.0f} s: "
        + describe(
            source_vocabulary=manifest["source_vocab_size"],
            target_vocabulary=manifest["target_vocab_size"],
            fingerprint=manifest["vocabulary_fingerprint"],
        )
    )


def run() -> None:
    """Console entry point."""
    shared: list[stage.SharedFlags] = [
        corpus_flags,
        filter_flags,
        beam,
        languages,
        preset_flag,
        vocabulary,
        paths.DATA_DIR,
    ]
    stage.run(main, __name__, shared, required=["data_dir"], takes_arguments=True)


if __name__ == "__main__":
    run()
