"""A model directory: its files, its weights, and the models opened from it."""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.keras_backend import require_tensorflow

require_tensorflow()

import numpy as np

from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.layers.initializers import zero_initialization
from t2t_keras.layers.linear import frozen_weights
from t2t_keras.model_dir_files import ModelFiles
from t2t_keras.training.weight_averaging import average_weights
from t2t_keras.training.weight_files import (
    DamagedCheckpoint,
    assign_arrays,
    load_arrays,
    save_arrays,
)
from t2t_keras.transformer import Transformer

_STEP = "step"


class LoadedModel(NamedTuple):
    """A model and the origin of its weights.

    Attributes:
        model: The model.
        weights: Name of the weight file; its path if it is outside the model directory.
        step: Number of updates before the weights were saved; of an average, before its
            newest checkpoint. None if the file does not contain it.
    """

    model: Transformer
    weights: str
    step: int | None


class OpenTranslator(NamedTuple):
    """A translator and the models loaded for it.

    Attributes:
        translator: The translator, which contains the models.
        loaded: The loaded models with the names of their weight files.
    """

    translator: Translator
    loaded: list[LoadedModel]


class ModelDir(ModelFiles):
    """The directory of one model.

    Args:
        path: The directory.
        **checkpoints: Arguments of `CheckpointStore`.
    """

    def average(self, last: int = 0, best: int = 0) -> list[int]:
        """Averages the newest or the best checkpoints and writes the result.

        Args:
            last: Number of newest checkpoints.
            best: Number of checkpoints with the best metric of the held-out data; if
                given, `last` is ignored.

        Returns:
            The steps of the averaged checkpoints, ascending; fewer than requested if
            there are not enough checkpoints.

        Raises:
            UserError: If there is no such checkpoint, or one is damaged.
        """
        available = self.checkpoints.steps()
        if best:
            metric = self.training_config.early_stop_metric
            steps = sorted(self.checkpoints.best_steps(best, metric))
        else:
            steps = available[-last:]
        if not steps:
            kind = f"checkpoint with a {metric}" if best else "checkpoint"
            raise self.no_checkpoint_error(kind)
        weights = average_weights([self.checkpoints.weights_path(s) for s in steps])
        # The newest step, even if the best checkpoints are older: the average is used
        # until training saves a newer one.
        save_arrays(self.averaged_path, {**weights, _STEP: np.array(available[-1])})
        return steps

    def checkpoint_to_resume(self, report: Callable[[str], None]) -> int | None:
        """Returns the step of the checkpoint that training resumes from.

        Args:
            report: Receives messages, as in `CheckpointStore.newest_resumable`.

        Returns:
            The step, or None if training starts from the beginning.

        Raises:
            UserError: If the directory has weights or checkpoints, but none to resume
                from. A new training would overwrite them.
        """
        step = self.checkpoints.newest_resumable(report)
        averages = [p for p in (self.averaged_path, self.ema_path) if p.is_file()]
        if step is None and averages:
            raise UserError(
                f"{self.path} has weights, but no checkpoint to resume from. To "
                f"start a new training from them, pass --init_from={self.path} and "
                "another --model_dir. To start over here, remove "
                f"{' and '.join(map(str, averages))}."
            )
        return step

    def save_ema(self, arrays: dict[str, np.ndarray], step: int) -> None:
        """Writes the exponential moving average of the weights after a step."""
        save_arrays(self.ema_path, {**arrays, _STEP: np.array(step)})

    def has_current_ema(self) -> bool:
        """Returns whether the moving average is as new as the newest checkpoint."""
        with contextlib.suppress(DamagedCheckpoint):
            return self._is_up_to_date(self.ema_path)
        return False

    def _is_up_to_date(self, path: Path) -> bool:
        """Returns whether an average exists and no checkpoint is newer."""
        if not path.is_file():
            return False
        steps = self.checkpoints.steps()
        return not steps or steps[-1] <= int(load_arrays(path, [_STEP])[_STEP])

    def weights_path(self, checkpoint: str = "auto") -> Path:
        """Returns the path of a weight file.

        Args:
            checkpoint: "averaged", "ema", "imported", "latest", the number of a step,
                or a path. "auto" is the first of "averaged" and "ema" that exists and
                is as new as the newest checkpoint. If there is none, it is "imported"
                in the directory of an imported model, otherwise "latest".

        Raises:
            UserError: If there are no such weights.
        """
        steps = self.checkpoints.steps()
        averages = {"averaged": self.averaged_path, "ema": self.ema_path}
        named = {**averages, "imported": self.imported_path}
        requested = checkpoint
        if checkpoint == "auto":
            checkpoint = next(
                (name for name in averages if self._is_up_to_date(averages[name])),
                "imported" if self.imported_path.is_file() else "latest",
            )
        if checkpoint == "latest":
            if not steps:
                raise self.no_checkpoint_error()
            return self.checkpoints.weights_path(steps[-1])
        if checkpoint in named:
            path = named[checkpoint]
        elif checkpoint.isdecimal():
            path = self.checkpoints.weights_path(int(checkpoint))
        else:
            path = Path(checkpoint)
        with user_path(path, "read"):
            is_file = path.is_file()
        if not is_file:
            raise UserError(
                f"There is no checkpoint {path}. It must be one of the steps {steps} "
                f"of {self.path} or an existing file. Received: {requested}"
            )
        return path

    def load(
        self, checkpoint: str = "auto", frozen: bool = False, **arguments: Any
    ) -> LoadedModel:
        """Builds the model and loads weights into it.

        "auto" and "latest" are resolved once, at the start. Training and averaging may
        continue while the weights are loaded.

        Args:
            checkpoint: The weights, as for `weights_path`.
            frozen: True if the weights will never change, in a process in which oneDNN
                assumes that (`t2t_keras.runtime.assumes_frozen_weights`). Default
                False.
            **arguments: Arguments of `Transformer`, such as `dtype`. The default dtype
                is float32, independent of the global dtype policy of Keras.

        Returns:
            The model, with the name and step of its weights.

        Raises:
            UserError: If there are no such weights, or they are damaged.
        """
        arguments.setdefault("dtype", "float32")
        config = self.transformer_config
        path = self.weights_path(checkpoint)
        # Reading and checksums release the GIL, so the model is built in the meantime.
        with (
            ThreadPoolExecutor(1) as pool,
            zero_initialization(),
            frozen_weights(frozen),
        ):
            reading = pool.submit(load_arrays, path)
            model = Transformer(config, **arguments)
        arrays = reading.result()
        assign_arrays(model.variables, arrays, path)
        is_own = path.parent in (self.path, self.checkpoints.directory)
        step = self.checkpoints.step_of(path)
        if step is None and _STEP in arrays:
            step = int(arrays[_STEP])
        return LoadedModel(model, path.name if is_own else str(path), step)

    def open_translator(
        self,
        checkpoints: str | Sequence[str] = "auto",
        options: SearchOptions | None = None,
        model: Transformer | None = None,
        dtype: str | None = None,
        frozen: bool = False,
        **arguments: Any,
    ) -> OpenTranslator:
        """Opens the directory for translating and scoring.

        Everything that decodes with a model directory gets its translator here.

        Args:
            checkpoints: The weights to load, as for `weights_path`. Several form an
                ensemble. Default "auto".
            options: The search options. Default: those of the directory.
            model: A model in memory to use instead of loading weights, such as one in
                training. Default none.
            dtype: Dtype or dtype policy of the loaded models. Default float32.
            frozen: As for `load`.
            **arguments: Further arguments of `Translator`.

        Returns:
            The translator and the loaded models.

        Raises:
            UserError: As for `load`.
        """
        names = [checkpoints] if isinstance(checkpoints, str) else checkpoints
        policy = {} if dtype is None else {"dtype": dtype}
        loaded = [] if model else [self.load(name, frozen, **policy) for name in names]
        translator = Translator(
            model or [each.model for each in loaded],
            self.tokenizers,
            options or SearchOptions(**self.search),
            **arguments,
        )
        return OpenTranslator(translator, loaded)

    def translator(self, *arguments: Any, **keywords: Any) -> Translator:
        """Returns the translator of `open_translator`, which has the same arguments."""
        return self.open_translator(*arguments, **keywords).translator

    def load_model(self, checkpoint: str = "auto", **arguments: Any) -> Transformer:
        """Returns only the model of `load`."""
        return self.load(checkpoint, **arguments).model
