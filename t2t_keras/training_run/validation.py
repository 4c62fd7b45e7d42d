"""Validation on the dev split during training: metrics and sample translations."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.batching import Batching
from t2t_keras.data.dataset import training_dataset
from t2t_keras.data.examples import Examples
from t2t_keras.data.prepared_data import text_path
from t2t_keras.data.text_lines import read_lines
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.evaluation.bleu import corpus_bleu
from t2t_keras.evaluation.bleu_tokenizers import choose_tokenizer
from t2t_keras.model_dir import ModelDir
from t2t_keras.special_tokens import BOS_ID, EOS_ID
from t2t_keras.training.tensorboard import TensorBoard
from t2t_keras.training.trainer import Trainer

_MAX_ATTENTION_TOKENS = 40


class Validation:
    """Computes the metrics of the dev split and shows sample translations.

    Args:
        trainer: The trainer, which computes the losses.
        examples: The dev split, or None.
        batching: Settings for forming batches, the same as in training.
        model_dir: The model directory, which has the text of the dev split.
        bleu_sentences: Number of sentences to decode greedily for BLEU. 0 for no BLEU.
        bleu_tokenizer: Name of sacreBLEU's tokenizer for BLEU.
        sample_sentences: Number of translations to show.
        report: Called with each line of text.
        board: TensorBoard callback to which translations and attention are written.
            Default none.
        is_chief: Whether this worker decodes. All workers compute losses. Default
            True.

    Attributes:
        metrics: The metrics of the last call; empty before the first.
    """

    def __init__(
        self,
        trainer: Trainer,
        examples: Examples | None,
        batching: Batching,
        model_dir: ModelDir,
        bleu_sentences: int,
        bleu_tokenizer: str,
        sample_sentences: int,
        report: Callable[[str], None],
        board: TensorBoard | None = None,
        is_chief: bool = True,
    ) -> None:
        self._trainer = trainer
        self.metrics: dict[str, float] = {}
        self._batches = 0
        if examples is not None and len(examples):
            order = BatchOrder(batching, examples.lengths, shuffle=False)
            self._batches = order.size(0)
            self._dataset = trainer.distribute(
                functools.partial(training_dataset, examples, order)
            )
        self._sample_sentences = sample_sentences
        self._report = report
        self._board = board
        self._sources, self._references = (
            list(itertools.islice(read_lines(path), bleu_sentences))
            if is_chief and path.is_file()
            else []
            for path in (
                text_path(model_dir.path, "dev", side) for side in ("source", "target")
            )
        )
        if self._sources:
            self._bleu_tokenizer = bleu_tokenizer
            if note := choose_tokenizer("", bleu_tokenizer, self._references).note:
                report(note)
            self._tokenizers = model_dir.tokenizers
            self._translator = model_dir.translator(
                model=trainer.model,
                options=SearchOptions(beam_size=1, max_extra_length=20),
            )

    def __call__(self) -> dict[str, float]:
        """Returns the metrics, named "val_..."."""
        if not self._batches:
            return {}
        metrics = self._trainer.evaluate(iter(self._dataset), self._batches)
        figures = {
            f"val_{name}": metrics[name]
            for name in ("loss", "nll", "perplexity", "accuracy")
        }
        if self._sources:
            nbest_lists = self._translator.translate(self._sources)
            hypotheses = [nbest[0].text for nbest in nbest_lists]
            figures["val_bleu"] = corpus_bleu(
                hypotheses, self._references, tokenizer=self._bleu_tokenizer
            )
            self._show(hypotheses)
        self.metrics = figures
        return figures

    def _show(self, hypotheses: list[str]) -> None:
        samples = list(
            itertools.islice(
                zip(self._sources, hypotheses, self._references, strict=True),
                self._sample_sentences,
            )
        )
        for source, hypothesis, reference in samples:
            self._report(f"  {source}\n    => {hypothesis}\n     = {reference}")
        if self._board and samples:
            self._board.write_samples(samples)
            source, _, reference = samples[0]
            self._board.write_attention(self._attention(source, reference))

    def _attention(self, source: str, target: str) -> dict[str, Any]:
        tokenize = (self._tokenizers.source.tokenize, self._tokenizers.target.tokenize)
        source_ids, target_ids = (
            function(tf.constant([text]))[:, :_MAX_ATTENTION_TOKENS].to_tensor()
            for function, text in zip(tokenize, (source, target), strict=True)
        )
        start = tf.fill([1, 1], BOS_ID)
        inputs = {
            "source": tf.concat([source_ids, tf.fill([1, 1], EOS_ID)], axis=1),
            "target": tf.concat([start, target_ids], axis=1),
        }
        _, weights = self._trainer.model(inputs, return_attention_scores=True)
        return {
            kind: [tf.cast(layer[0], tf.float32).numpy() for layer in layers]
            for kind, layers in weights.items()
        }
