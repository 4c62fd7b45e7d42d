"""Opens every corpus that the command line knows, by name."""

from collections.abc import Sequence

from t2t_keras.data.corpora import Corpus, TextCorpus, TfdsCorpus
from t2t_keras.data.treebank import TreebankCorpus
from t2t_keras.errors import UserError


def open_tfds(
    name: str, source_lang: str, target_lang: str, data_dir: str | None = None
) -> TfdsCorpus:
    """Opens a dataset of tensorflow-datasets by name.

    Args:
        name: The dataset's name, such as "wmt14_translate/de-en".
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
        data_dir: Where tensorflow-datasets keeps its data. Default: its own default.

    Raises:
        UserError: If there is no such dataset, or it lacks one of the languages.
    """
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        # The whole message lists every dataset that there is.
        reason = str(error).splitlines()[0]
        raise UserError(
            f"tensorflow-datasets has no dataset {name!r}: {reason}"
        ) from error
    return TfdsCorpus(f"tfds:{name}", source_lang, target_lang, builder)


def open_cldr(
    source_lang: str,
    target_lang: str,
    data_dir: str | None = None,
    seed: int = 0,
    train_pairs: int = 100_000,
) -> TfdsCorpus:
    """Opens the embedded corpus.

    Args:
        source_lang: A CLDR locale.
        target_lang: Another one.
        data_dir: Where to keep the generated data. Default: where tensorflow-datasets
            keeps its own.
        seed: The sentences are a function of it and of the locales. Default 0.
        train_pairs: Number of training pairs. Default 100,000.

    Raises:
        UserError: If both locales are the same, or one is unknown.
    """
    import tensorflow_datasets as tfds

    from t2t_keras.data.cldr import Cldr, CldrConfig
    from t2t_keras.data.cldr_sentences import check_locales

    tfds.disable_progress_bar()
    check_locales(source_lang, target_lang)
    config = CldrConfig.of(source_lang, target_lang, seed, train_pairs)
    builder = Cldr(config=config, data_dir=data_dir)
    return TfdsCorpus("cldr", source_lang, target_lang, builder, quiet=True)


def open_corpus(
    corpus: str,
    source_lang: str,
    target_lang: str,
    sources: dict[str, Sequence[str]] | None = None,
    targets: dict[str, Sequence[str]] | None = None,
    tfds_data_dir: str | None = None,
    cldr_pairs: int = 100_000,
    cldr_seed: int = 0,
    trees: dict[str, Sequence[str]] | None = None,
    tree_substitutions: int = 0,
    tree_tags: bool = False,
) -> Corpus:
    """Opens any corpus by its description, which a manifest keeps.

    Args:
        corpus: "cldr", "text", "treebank" or "tfds:NAME".
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
        sources: Of "text": the source files of each split.
        targets: Of "text": the target files of each split.
        tfds_data_dir: Where tensorflow-datasets keeps its data.
        cldr_pairs: Of "cldr": number of training pairs.
        cldr_seed: Of "cldr": the seed.
        trees: Of "treebank": the files and folders of each split.
        tree_substitutions: Of "treebank": more versions of each training tree.
        tree_tags: Of "treebank": whether targets tell each word's part of speech.

    Raises:
        UserError: If there is no such corpus.
    """
    if corpus == "cldr":
        return open_cldr(source_lang, target_lang, tfds_data_dir, cldr_seed, cldr_pairs)
    if corpus == "text":
        return TextCorpus(source_lang, target_lang, sources or {}, targets or {})
    if corpus == "treebank":
        return TreebankCorpus(
            source_lang, trees or {}, tree_substitutions, keep_tags=tree_tags
        )
    if corpus.startswith("tfds:"):
        return open_tfds(
            corpus.removeprefix("tfds:"), source_lang, target_lang, tfds_data_dir
        )
    raise UserError(
        f"corpus is cldr, text, treebank or tfds:NAME. Received: {corpus!r}"
    )
