"""What the training stage keeps track of: its place, its budget, the dev split."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import keras

from t2t_keras.data.batching import Batching
from t2t_keras.data.catalog import open_corpus
from t2t_keras.data.examples import Examples, TextExamples
from t2t_keras.data.filters import LengthFilter
from t2t_keras.data.lines import read_lines
from t2t_keras.data.preparation import PreparedData, text_path
from t2t_keras.data.translation import Position, training_dataset
from t2t_keras.decoding.translator import Translator
from t2t_keras.evaluation.bleu import corpus_bleu
from t2t_keras.model_dir import ModelDir
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.trainer import PLACE, Trainer


def open_examples(data: PreparedData, split: str, from_text: bool = False) -> Examples:
    """Opens a split of prepared data.

    Args:
        data: The prepared directory.
        split: "train", "dev" or "test".
        from_text: Read the corpus that the directory was made of, rather than its
            records, with the same vocabulary and filter.

    Raises:
        ValueError: If the corpus no longer is what it was.
    """
    if not from_text:
        return data.examples(split)
    length_filter = LengthFilter(**data.manifest["length_filter"])
    corpus = open_corpus(**data.manifest["corpus_arguments"])
    examples = TextExamples(corpus, split, data.tokenizers, length_filter)
    prepared = data.manifest["splits"][split]
    # The lengths count the end token of each sentence.
    tokens = [int(side) - len(examples) for side in examples.lengths.sum(axis=0)]
    found = dict(
        zip(
            ("pairs", "source_tokens", "target_tokens"),
            (len(examples), *tokens),
            strict=True,
        )
    )
    if found != {name: prepared[name] for name in found}:
        raise ValueError(
            f"The text that {data.data_dir} was prepared from has changed: it has "
            f"{found} now. Run t2t-prepare again."
        )
    return examples


class Progress(keras.callbacks.Callback):
    """Where a run stands, and how much of its budget is spent.

    Args:
        budget: How long to train.
        trainer: Counts the steps.
    """

    def __init__(self, budget: TrainingBudget, trainer: Trainer) -> None:
        super().__init__()
        self.position = Position()
        self._budget = budget
        self._trainer = trainer
        self._epochs = 0.0
        self._minutes_before = 0.0
        self._started = self._interval_started = time.monotonic()

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned in an earlier run."""
        self.position = Position(**state["position"])
        self._epochs = state["epochs"]
        self._minutes_before = state["minutes"]

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint has to keep."""
        return {
            "position": {"epoch": self.position.epoch, "batch": self.position.batch},
            "epochs": self._epochs,
            "minutes": self._minutes(),
        }

    def _minutes(self) -> float:
        return self._minutes_before + (time.monotonic() - self._started) / 60

    def fraction(self) -> float:
        """Tells how much of the budget is spent."""
        return self._budget.fraction(self._trainer.step, self._epochs, self._minutes())

    def interval_minutes(self) -> float:
        """Tells for how long there has been no validation."""
        return (time.monotonic() - self._interval_started) / 60

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Starts the clock of an interval, when the validation before it is over."""
        self._interval_started = time.monotonic()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Notes the place in the data."""
        # Keras turns all logs into floats.
        logs = {name: int((logs or {})[name]) for name in PLACE}
        done = logs["batch"] + 1
        self._epochs = logs["epoch"] + done / logs["batches"]
        if done == logs["batches"]:
            self.position = Position(logs["epoch"] + 1, 0)
        else:
            self.position = Position(logs["epoch"], done)


class Validation:
    """Computes the dev split's figures, and shows some translations.

    Args:
        trainer: Computes losses.
        examples: The dev split, or None.
        batching: As of training.
        model_dir: Has the dev split's text.
        bleu_sentences: How many of them to decode greedily for BLEU; 0 for none.
        sample_sentences: How many to show.
        report: Receives a line of text.
    """

    def __init__(
        self,
        trainer: Trainer,
        examples: Examples | None,
        batching: Batching,
        model_dir: ModelDir,
        bleu_sentences: int,
        sample_sentences: int,
        report: Callable[[str], None],
    ) -> None:
        self._trainer = trainer
        self._dataset = (
            training_dataset(
                examples, batching, parts=trainer.accumulate, epochs=1, shuffle=False
            )
            if examples is not None and len(examples)
            else None
        )
        self._sample_sentences = sample_sentences
        self._report = report
        self._sources, self._references = (
            list(itertools.islice(read_lines(path), bleu_sentences))
            if path.is_file()
            else []
            for path in (
                text_path(model_dir.path, "dev", side) for side in ("source", "target")
            )
        )
        self._translator = Translator(
            trainer.model, model_dir.tokenizers, beam_size=1, max_extra_length=20
        )

    def __call__(self) -> dict[str, float]:
        """Returns the figures, named "val_..."."""
        if self._dataset is None:
            return {}
        metrics = self._trainer.evaluate(self._dataset)
        figures = {
            f"val_{name}": metrics[name]
            for name in ("loss", "nll", "perplexity", "accuracy")
        }
        if self._sources:
            found = self._translator.translate(self._sources)
            hypotheses = [best[0].text for best in found]
            figures["val_bleu"] = corpus_bleu(hypotheses, self._references)
            for source, hypothesis, reference in itertools.islice(
                zip(self._sources, hypotheses, self._references, strict=True),
                self._sample_sentences,
            ):
                self._report(f"  {source}\n    => {hypothesis}\n     = {reference}")
        return figures
