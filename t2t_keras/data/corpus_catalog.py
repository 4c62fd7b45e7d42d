"""Opens the corpora of the command line by name."""

from collections.abc import Sequence

from t2t_keras.data.corpora import Corpus, TextCorpus, TfdsCorpus
from t2t_keras.data.treebank import TreebankCorpus
from t2t_keras.errors import UserError


def open_tfds(
    name: str, source_lang: str, target_lang: str, data_dir: str | None = None
) -> TfdsCorpus:
    """Opens a tensorflow-datasets dataset by name.

    Args:
        name: The dataset's name, such as "wmt14_translate/de-en".
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
        data_dir: Directory of the tensorflow-datasets data. Default None (the default
            of tensorflow-datasets).

    Raises:
        UserError: If the dataset does not exist or lacks one of the languages.
    """
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        # The rest of the message lists every available dataset.
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
    """Opens the embedded CLDR corpus.

    Args:
        source_lang: CLDR locale of the source side.
        target_lang: CLDR locale of the target side.
        data_dir: Directory for the generated data. Default None (the default of
            tensorflow-datasets).
        seed: Random seed. Together with the locales it determines the sentences.
            Default 0.
        train_pairs: Number of training pairs. Default 100,000.

    Raises:
        UserError: If the two locales are equal or one of them is unknown.
    """
    import tensorflow_datasets as tfds

    from t2t_keras.data.cldr import Cldr, CldrConfig
    from t2t_keras.data.cldr_sentences import check_locales

    tfds.disable_progress_bar()
    check_locales(source_lang, target_lang)
    config = CldrConfig.create(source_lang, target_lang, seed, train_pairs)
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
    train_weights: Sequence[float] = (),
    train_tags: Sequence[str] = (),
    trees: dict[str, Sequence[str]] | None = None,
    tree_substitutions: int = 0,
    tree_tags: bool = False,
) -> Corpus:
    """Opens a corpus by its description, as stored in a manifest.

    Args:
        corpus: "cldr", "text", "treebank" or "tfds:NAME".
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
        sources: For "text": source files of each split.
        targets: For "text": target files of each split.
        train_weights: For "text": weight of each training file. Default none.
        train_tags: For "text": tag of each training file. Default none.
        tfds_data_dir: Directory of the tensorflow-datasets data. Default None (the
            default of tensorflow-datasets).
        cldr_pairs: For "cldr": number of training pairs. Default 100,000.
        cldr_seed: For "cldr": random seed. Default 0.
        trees: For "treebank": files and folders of each split.
        tree_substitutions: For "treebank": number of synthetic trees to add for each
            training tree. Default 0.
        tree_tags: For "treebank": whether targets contain part-of-speech tags. Default
            False.

    Raises:
        UserError: If the corpus is unknown.
    """
    if corpus == "cldr":
        return open_cldr(source_lang, target_lang, tfds_data_dir, cldr_seed, cldr_pairs)
    if corpus == "text":
        return TextCorpus(
            source_lang,
            target_lang,
            sources or {},
            targets or {},
            train_weights,
            train_tags,
        )
    if corpus == "treebank":
        return TreebankCorpus(
            source_lang, trees or {}, tree_substitutions, keep_tags=tree_tags
        )
    if corpus.startswith("tfds:"):
        return open_tfds(
            corpus.removeprefix("tfds:"), source_lang, target_lang, tfds_data_dir
        )
    raise UserError(
        f"corpus must be cldr, text, treebank or tfds:NAME. Received: {corpus!r}"
    )
