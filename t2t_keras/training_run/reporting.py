"""Reports of a training run: a progress bar, lines of text, or JSON."""

import contextlib
import json
import math
import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from t2t_keras import messages
from t2t_keras.analysis.flops import training_flops
from t2t_keras.config import TransformerConfig
from t2t_keras.data.batching import Batching
from t2t_keras.data.examples import Examples
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.callbacks import Logs
from t2t_keras.training.trainer import Trainer


class Reporter:
    """Prints events on standard error.

    Args:
        log_format: "text" for lines of text, "json" for one JSON object per line,
            "auto" for a progress bar on a terminal and lines of text elsewhere.
            Default "auto".
        silent: Whether to print nothing, as in workers other than the chief. Default
            False.
        report: Called with each line instead of printing it, without a progress bar.
            Default: print to standard error.
    """

    def __init__(
        self,
        log_format: str = "auto",
        silent: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._json = log_format == "json"
        self._silent = silent
        self._report = report or messages.report
        self._bar: Any = None
        self._draws_bar = (
            log_format == "auto"
            and report is None
            and sys.stderr.isatty()
            and not silent
        )

    @property
    def every_seconds(self) -> float | None:
        """Seconds between reports for a progress bar, or None without a bar."""
        return 0.5 if self._draws_bar else None

    def message(self, text: str) -> None:
        """Reports a line of text."""
        if self._silent:
            return
        if self._json:
            self._report(json.dumps({"event": "message", "text": text}))
        elif self._bar is not None:
            with contextlib.suppress(OSError):  # The terminal may be gone.
                self._bar.write(text, file=sys.stderr)
        else:
            self._report(text)

    def event(self, name: str, figures: Logs) -> None:
        """Reports metrics.

        Args:
            name: "step", "dev", or another event.
            figures: The metrics by name; for "step", those of `ProgressReport`.
        """
        if self._silent:
            return
        if self._json:
            rounded = {k: _rounded(value) for k, value in figures.items()}
            self._report(json.dumps({"event": name, **rounded}))
        elif name == "step" and self._draws_bar:
            self._draw(figures)
        elif name == "step":
            self._report(_step_line(figures))
        else:
            values = "  ".join(f"{k} {value:.3f}" for k, value in figures.items())
            self.message(f"{name}: {values}")

    def _draw(self, figures: Logs) -> None:
        if self._bar is None:
            self._bar = tqdm(
                total=100,
                file=sys.stderr,
                leave=False,
                dynamic_ncols=True,
                bar_format="{percentage:3.0f}% |{bar:20}| {desc}",
            )
        self._bar.n = min(100.0, 100 * figures["done"])
        with contextlib.suppress(OSError):
            # The bar already shows the percentage.
            self._bar.set_description_str(_step_line(figures, share=False))

    def close(self) -> None:
        """Removes the progress bar from the terminal."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.close()
            self._bar = None


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        # JSON has neither NaN nor infinity.
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _step_line(figures: Logs, share: bool = True) -> str:
    done = f" ({figures['done']:.0%})" if share else ""
    skipped = f"  skipped {figures['skipped']}" if figures["skipped"] else ""
    return (
        f"step {figures['step']:,}{done}  epoch {figures['epoch']:.2f}  "
        f"loss {figures['loss']:.3f}  perplexity {figures['perplexity']:.2f}  "
        f"learning rate {figures['learning_rate']:.2e}  "
        f"{figures['tokens_per_second']:,.0f} tokens/s{skipped}  "
        f"{format_seconds(figures['seconds_left'])} left"
    )


def format_seconds(seconds: float) -> str:
    """Formats a duration as 1:02:03 or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{seconds:02}"
    return f"{minutes}:{seconds:02}"


def describe_start(
    trainer: Trainer,
    transformer: TransformerConfig,
    examples: Examples,
    batching: Batching,
    budget: TrainingBudget,
    preset: str,
) -> str:
    """Describes the model, the data and the cost of a training.

    Args:
        trainer: The trainer, with model and strategy.
        transformer: The configuration of the model.
        examples: The training data.
        batching: Settings for forming batches.
        budget: The training budget. The total cost is omitted if the only limit is
            `minutes`.
        preset: The name of the preset.
    """
    parts = trainer.replicas * trainer.accumulate
    statistics = batching.statistics(examples.lengths, parts)
    source_length, target_length = examples.lengths.mean(axis=0)
    pairs = len(examples) * trainer.objective.passes
    epoch = training_flops(transformer, source_length, target_length, pairs)
    step = epoch / statistics.batches
    limits = [
        (budget.steps or 0) * step,
        (budget.epochs or 0) * epoch,
        (budget.tokens or 0) * epoch / examples.lengths.sum(),
    ]
    whole = min((flops for flops in limits if flops), default=None)
    model = messages.describe(
        preset=preset,
        parameters=sum(math.prod(v.shape) for v in trainer.model.trainable_variables),
        strategy=type(trainer.strategy).__name__.lstrip("_"),
        replicas=trainer.replicas,
        global_batch=f"{batching.batch_tokens:,} tokens per side",
        parts_per_batch=parts,
        precision=trainer.model.dtype_policy.name,
    )
    data = messages.describe(
        training_pairs=len(examples),
        batches_per_epoch=statistics.batches,
        shapes=statistics.shapes,
        non_padding=f"{statistics.non_padding:.3f}",
        FLOPs_per_step=f"{step:.2g}",
        **({"total_FLOPs": f"{whole:.2g}"} if whole else {}),
    )
    return f"{model}\n{data}"
