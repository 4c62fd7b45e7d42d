"""TensorBoard logs of a training."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams

Logs = dict[str, Any]


class TensorBoard(keras.callbacks.Callback):
    """Writes scalars, texts and images, with the number of updates as the step.

    Args:
        log_dir: Directory of the logs, with the runs "train" and "dev".
        step: Returns the number of completed updates.
        values: Hyper-parameters to show. Default: none.
        graph: Returns the graph of the model to show. Default: none.
        every_steps: Number of updates between training scalars. Default 10.
        profile: First and last step to profile, inclusive. Default: no profile.
    """

    def __init__(
        self,
        log_dir: str | Path,
        step: Callable[[], int],
        values: Logs | None = None,
        graph: Callable[[], tf.Graph] | None = None,
        every_steps: int = 10,
        profile: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self._log_dir = Path(log_dir)
        self._step = step
        self._values = values or {}
        self._graph = graph
        self._every_steps = every_steps
        self._profile = profile
        self._profiling = False

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Opens the files."""
        self._train = tf.summary.create_file_writer(str(self._log_dir / "train"))
        self._dev = tf.summary.create_file_writer(str(self._log_dir / "dev"))
        with self._train.as_default(step=self._step()):
            hparams.hparams(
                {
                    name: value if isinstance(value, bool | int | float) else str(value)
                    for name, value in self._values.items()
                }
            )
            if self._graph and not self._step():
                tf.summary.graph(self._graph())

    def write_samples(self, samples: Sequence[tuple[str, str, str]]) -> None:
        """Writes translations, each as (source, translation, reference)."""
        rows = "".join(
            "| " + " | ".join(text.replace("|", "\\|") for text in sample) + " |\n"
            for sample in samples
        )
        table = "| source | translation | reference |\n|---|---|---|\n" + rows
        with self._dev.as_default(step=self._step()):
            tf.summary.text("translations", table)

    def write_attention(self, weights: dict[str, Sequence[np.ndarray]]) -> None:
        """Writes the attention weights of a sentence, one image per layer.

        Args:
            weights: For each kind of attention, a list of `[heads, query, key]` weights
                in [0, 1], one per layer.
        """
        with self._dev.as_default(step=self._step()):
            for kind, layers in weights.items():
                for number, layer in enumerate(layers):
                    picture = attention_image(np.asarray(layer, np.float32))
                    tf.summary.image(f"attention/{kind}_{number}", picture[np.newaxis])

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Starts the profile at its first step."""
        if not self._profiling and self._profile and batch + 1 == self._profile[0]:
            tf.profiler.experimental.start(str(self._log_dir))
            self._profiling = True

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Writes the scalars of a step."""
        if self._profiling and self._profile and batch + 1 >= self._profile[1]:
            self._stop_profile()
        if (batch + 1) % self._every_steps == 0:
            with self._train.as_default(step=batch + 1):
                for name, value in (logs or {}).items():
                    _write_scalar(name, value)

    def _stop_profile(self) -> None:
        tf.profiler.experimental.stop()
        self._profiling = False

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Writes the metrics of the held-out data."""
        with self._dev.as_default(step=self._step()):
            for name, value in (logs or {}).items():
                if name.startswith("val_"):
                    _write_scalar(name.removeprefix("val_"), value)
        self._train.flush()
        self._dev.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Closes the files."""
        if self._profiling:
            self._stop_profile()
        self._train.close()
        self._dev.close()


def _write_scalar(name: str, value: float) -> None:
    # Summaries are float32, in which the perplexity of a diverged run overflows: NumPy
    # floats become infinite, Python floats would raise an error.
    tf.summary.scalar(name, np.float64(value))


def attention_image(weights: np.ndarray, cell: int = 12) -> np.ndarray:
    """Draws the heads of a layer side by side; darker is more attention.

    Args:
        weights: `[heads, query, key]` in [0, 1]; queries run down, keys across.
        cell: Width and height of a weight in pixels. Default 12.

    Returns:
        `[height, width, 1]` float32 in [0, 1], with four heads in a row.
    """
    heads, queries, keys = weights.shape
    columns = min(heads, 4)
    rows = -(-heads // columns)
    height, width = queries * cell + cell, keys * cell + cell
    picture = np.ones([rows * height, columns * width, 1], np.float32)
    for head, drawn in enumerate(1 - weights):
        top, left = head // columns * height, head % columns * width
        square = drawn.repeat(cell, axis=0).repeat(cell, axis=1)
        picture[top : top + queries * cell, left : left + keys * cell, 0] = square
    return picture


def model_graph(model: keras.Model) -> tf.Graph:
    """Returns the graph of a model's forward pass, for TensorBoard."""
    ids = tf.TensorSpec([None, None], tf.int32)
    function = tf.function(model).get_concrete_function({"source": ids, "target": ids})
    return function.graph
