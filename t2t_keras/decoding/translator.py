"""`Translator`: sentences in, translations out, in the order of the input."""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import tensorflow as tf

from t2t_keras import runtime
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.batched_search import BatchedSearch
from t2t_keras.decoding.hub_presets import Pretrained, load_preset, save_preset
from t2t_keras.decoding.input_windows import windows
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.text_search import Sentences, TextSearch, to_utf8
from t2t_keras.decoding.translation_details import (
    DetailReader,
    Details,
    ScoredTranslation,
)
from t2t_keras.decoding.translation_status import BROKEN_MODEL, MODEL_ERROR, TOO_LONG
from t2t_keras.decoding.translations import Hypothesis, Translation
from t2t_keras.errors import UserError
from t2t_keras.transformer import Transformer


class Translator:
    """Translates sentences by beam search or random sampling.

    Args:
        models: A trained model, or several with the same vocabulary as an ensemble.
        tokenizers: The tokenizers that they were trained with.
        options: Search options. Default: `SearchOptions()`.
        batch_tokens: Maximum number of source tokens in a batch, padding included.
            Default 2,048.
        max_input_tokens: Maximum number of tokens of a sentence, prefix or given
            translation; longer ones are truncated. Default 1,024.
        concurrent_batches: Number of batches to search concurrently. Default 1.

    Attributes:
        models: The models.
        truncated: Number of sentences so far that were truncated, or whose prefix was.
    """

    def __init__(
        self,
        models: Transformer | Sequence[Transformer],
        tokenizers: TokenizerPair,
        options: SearchOptions | None = None,
        batch_tokens: int = 2048,
        max_input_tokens: int = 1024,
        concurrent_batches: int = 1,
    ) -> None:
        self.options = options or SearchOptions()
        self.max_input_tokens = max_input_tokens
        self.truncated = 0
        self.models = [models] if isinstance(models, Transformer) else [*models]
        self._tokenizers = tokenizers
        self._seen = 0
        self._text_search = TextSearch(
            self.models, tokenizers, self.options, max_input_tokens
        )
        self._batched_search = BatchedSearch(
            self._text_search, batch_tokens, concurrent_batches
        )

    @classmethod
    def from_preset(
        cls,
        preset: str | Path,
        options: SearchOptions | None = None,
        dtype: str | None = None,
        frozen: bool | None = None,
        **arguments: Any,
    ) -> Self:
        """Opens a preset that `save_to_preset` has written.

        Args:
            preset: A directory, "hf://user/name" (Hugging Face) or
                "kaggle://user/model/keras/variant[/version]".
            options: Search options. Default: the options stored in the preset.
            dtype: Dtype policy of the model, such as "mixed_bfloat16". Default: the
                policy stored in the preset.
            frozen: Whether the weights will never change. Default: True in a process in
                which oneDNN assumes that (`runtime.configure("decoding")`), like
                t2t-translate, otherwise False.
            **arguments: Other arguments of `Translator`.

        Raises:
            UserError: If there is no such preset, or a file is missing or damaged.
            MissingExtra: If the package that downloads from that hub is not installed.
        """
        if frozen is None:
            frozen = runtime.assumes_frozen_weights()
        found = load_preset(preset, dtype, frozen)
        arguments = {"max_input_tokens": found.max_input_tokens, **arguments}
        return cls(found.model, found.tokenizers, options or found.options, **arguments)

    def save_to_preset(self, directory: str | Path) -> None:
        """Writes a preset: model, weights, tokenizers and search options.

        The directory is written completely or not at all. Publish it with
        `keras_hub.upload_preset("hf://user/name", directory)`.

        Args:
            directory: A new or empty directory.

        Raises:
            UserError: If this is an ensemble, or the directory is not empty or cannot
                be written to.
        """
        if len(self.models) != 1:
            raise UserError(
                "A preset must contain exactly one model. Received: an ensemble of "
                f"{len(self.models)}"
            )
        [model] = self.models
        save_preset(
            directory,
            Pretrained(model, self._tokenizers, self.options, self.max_input_tokens),
        )

    # str is itself an Iterable[str], so its signature comes first.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, sentences: str
    ) -> str: ...

    @overload
    def __call__(self, sentences: Iterable[str]) -> list[str]: ...

    def __call__(self, sentences: str | Iterable[str]) -> str | list[str]:
        """Returns the best translation of one or several sentences.

        `translate` also returns scores, n-best lists and statuses.

        Args:
            sentences: One sentence, or several.

        Returns:
            A string if `sentences` is a string, otherwise a list in the same order.

        Raises:
            FloatingPointError: If the model computes non-finite numbers.
        """
        if isinstance(sentences, str):
            return self([sentences])[0]
        best = [row[0] for row in self.translate(sentences)]
        if any(translation.status == MODEL_ERROR for translation in best):
            raise FloatingPointError(BROKEN_MODEL)
        return [translation.text for translation in best]

    def translate(
        self, sentences: Iterable[str], prefixes: Iterable[str] | None = None
    ) -> list[list[Translation]]:
        """Translates sentences; results are in the order of the sentences.

        Args:
            sentences: The sentences; empty ones are allowed. A sentence with a lone
                surrogate is not valid text and is not translated.
            prefixes: Forced prefix of each translation. Default: none.

        Returns:
            The hypotheses of each sentence in descending order of score, at least 1 and
            at most `n_best`. If there is no translation, the status says why.

        Raises:
            ValueError: If the numbers of sentences and prefixes differ.
        """
        _, rows = self._search(sentences, prefixes, with_token_scores=False)
        return [[hypothesis.translation for hypothesis in row] for row in rows]

    def translate_in_detail(
        self, sentences: Iterable[str], prefixes: Iterable[str] | None = None
    ) -> list[list[tuple[Translation, Details]]]:
        """Translates sentences and returns token-level details.

        The token scores of a translation add up to its score times its length penalty.

        Args:
            sentences: See `translate`.
            prefixes: See `translate`.

        Returns:
            The hypotheses of `translate`, each with its details.

        Raises:
            ValueError: If the numbers of sentences and prefixes differ.
        """
        source, rows = self._search(sentences, prefixes, with_token_scores=True)
        sentence_of = [index for index, row in enumerate(rows) for _ in row]
        hypotheses = [hypothesis for row in rows for hypothesis in row]
        if not hypotheses:
            return []
        target = tf.RaggedTensor.from_row_lengths(
            np.concatenate([one.ids for one in hypotheses]),
            [len(one.ids) for one in hypotheses],
        )
        details = [Details([], [], []) for _ in hypotheses]
        for pair in self._batched_search.score(
            tf.gather(source, sentence_of), target, target.row_lengths().numpy() > 0
        ):
            scores = hypotheses[pair.number].token_scores
            details[pair.number] = self._details.read(
                pair.source, pair.target, scores, pair.attention
            )
        pairs = zip((one.translation for one in hypotheses), details, strict=True)
        return [list(itertools.islice(pairs, len(row))) for row in rows]

    def _search(
        self,
        sentences: Iterable[str],
        prefixes: Iterable[str] | None,
        with_token_scores: bool,
    ) -> tuple[tf.RaggedTensor, list[list[Hypothesis]]]:
        """Returns the source ids and the hypotheses of each sentence."""
        text, prefix_text = to_utf8(sentences, prefixes)
        ids, status = self._text_search.tokenize(text)
        prefix = self._text_search.tokenize_targets(prefix_text)
        status = self._text_search.combine_status(status, prefix.status)
        self.truncated += status.numpy().tolist().count(TOO_LONG.encode())
        # The random seed of a sentence does not depend on its batch.
        number = int(tf.size(status))
        seeds = np.arange(self._seen, self._seen + number, dtype=np.int32)
        self._seen += number
        rows = self._batched_search.search(
            Sentences(ids, status), prefix.ids, seeds, with_token_scores
        )
        return ids, rows

    @functools.cached_property
    def _details(self) -> DetailReader:
        return DetailReader(self._tokenizers)

    def details(
        self, sentences: Sequence[str], translations: Sequence[str]
    ) -> list[Details]:
        """Returns token-level details of given translations; see `score`."""
        return [scored.details for scored in self.score(sentences, translations)]

    def score(
        self, sentences: Sequence[str], translations: Sequence[str]
    ) -> list[ScoredTranslation]:
        """Scores given translations, each independently of the others.

        A translation of an empty sentence is scored like any other, unless it is empty
        too.

        Args:
            sentences: Source sentences; long ones are truncated.
            translations: A translation of each sentence; long ones are truncated, and
                their end token is not scored.

        Returns:
            The details and status of each translation.

        Raises:
            ValueError: If the numbers of sentences and translations differ.
        """
        text, target_text = to_utf8(sentences, translations)
        pairs = self._text_search.tokenize_pairs(text, target_text)
        results = [
            ScoredTranslation(status=value.decode()) for value in pairs.status.numpy()
        ]
        num_scored = pairs.num_scored.numpy()
        for pair in self._batched_search.score(
            pairs.source, pairs.target, num_scored > 0
        ):
            scores = pair.log_probs[: num_scored[pair.number]]
            if not np.isfinite(scores).all():
                results[pair.number] = ScoredTranslation(status=MODEL_ERROR)
                continue
            details = self._details.read(
                pair.source, pair.target, scores, pair.attention
            )
            results[pair.number] = results[pair.number]._replace(details=details)
        return results

    def stream(
        self, sentences: Iterable[str], window: int = 2048, wait: bool = False
    ) -> Iterator[list[Translation]]:
        """Translates sentences as they arrive.

        All sentences that have arrived are translated together: a slow source is
        answered line by line, a fast one in batches sorted by length.

        Args:
            sentences: An iterable that may block.
            window: Maximum number of sentences to buffer. Default 2,048.
            wait: Whether to wait for a full window, so that batches depend only on the
                sentences and not on their time of arrival. Default False.

        Yields:
            The hypotheses of each sentence, in order.

        Raises:
            Exception: An exception of the iterable, after the sentences before it.
        """
        for pending in windows(sentences, window, wait):
            yield from self.translate(pending)
