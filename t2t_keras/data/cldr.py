"""The `cldr` corpus: real translations that need no download."""

import dataclasses
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import tensorflow_datasets as tfds

from t2t_keras.data.cldr_sentences import SOURCES, generate_pairs

DEFAULT_TRAIN_PAIRS = 100_000
HELD_OUT_PAIRS = 1_000
"""Number of pairs in the dev split, and in the test split."""


@dataclasses.dataclass(kw_only=True)
class CldrConfig(tfds.core.BuilderConfig):
    """Settings of a `Cldr` corpus.

    Args:
        source_lang: CLDR locale of the source side.
        target_lang: CLDR locale of the target side.
        seed: Random seed. Together with the locales it determines the sentences.
            Default 0.
        train_pairs: Number of training pairs. Default 100,000.
    """

    source_lang: str
    target_lang: str
    seed: int = 0
    train_pairs: int = DEFAULT_TRAIN_PAIRS

    @classmethod
    def create(
        cls, source_lang: str, target_lang: str, seed: int, train_pairs: int
    ) -> "CldrConfig":
        """Creates a config named after its values, so that each has its own folder."""
        return cls(
            # The output of Babel and num2words depends on their versions.
            name=f"{source_lang}-{target_lang}-{train_pairs}-seed{seed}-"
            + "-".join(f"{name}{metadata.version(name)}" for name in SOURCES),
            source_lang=source_lang,
            target_lang=target_lang,
            seed=seed,
            train_pairs=train_pairs,
        )


class Cldr(tfds.core.GeneratorBasedBuilder):
    """Parallel sentences made from CLDR data, as a tensorflow-datasets dataset."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        languages = (self.builder_config.source_lang, self.builder_config.target_lang)
        return self.dataset_info_from_configs(
            description=__doc__,
            homepage="https://cldr.unicode.org",
            features=tfds.features.Translation(languages=languages),
            supervised_keys=languages,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        config = self.builder_config
        pairs = generate_pairs(config.source_lang, config.target_lang, config.seed)
        # All splits come from one stream without repeated sources, so no source
        # sentence is in two of them.
        test = [next(pairs) for _ in range(HELD_OUT_PAIRS)]
        dev = [next(pairs) for _ in range(HELD_OUT_PAIRS)]
        train = (next(pairs) for _ in range(config.train_pairs))
        return {
            "train": self._generate_examples(train),
            "validation": self._generate_examples(dev),
            "test": self._generate_examples(test),
        }

    def _generate_examples(self, pairs: Any) -> Iterator[tuple[int, dict[str, str]]]:
        config = self.builder_config
        for key, (source, target) in enumerate(pairs):
            yield key, {config.source_lang: source, config.target_lang: target}
