"""A model directory: all that later stages need, in one place.

config.json                 arguments of the model, the training and the run; the
                            data's manifest
tokenizer/                  the vocabulary
dev.source.txt ...          held-back text
checkpoints/                weights and state of the run
averaged.npz                the average of some checkpoints
ema.npz                     the exponential average that training kept
lock                        held by the training that runs
scores.test.json ...        what t2t-evaluate found, beside the translations
logs/                       TensorBoard
"""

import contextlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from t2t_keras.keras_backend import require_tensorflow

require_tensorflow()

import keras
import numpy as np

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.config.config_base import Config
from t2t_keras.data.preparation import TOKENIZER_DIR, PreparedData, text_path
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.translator import Translator
from t2t_keras.errors import UserError
from t2t_keras.files import (
    is_locked,
    locked,
    make_directory,
    user_path,
    write_atomically,
)
from t2t_keras.json_file import read_object
from t2t_keras.layers.initializers import weights_to_be_loaded
from t2t_keras.layers.linear import frozen_weights
from t2t_keras.same_training import check_same_training
from t2t_keras.training.checkpoints import CheckpointStore
from t2t_keras.training.weight_averaging import average_weights
from t2t_keras.training.weight_files import (
    DamagedCheckpoint,
    assign_arrays,
    load_arrays,
    save_arrays,
)
from t2t_keras.transformer import Transformer

FORMAT = 2
"""Of the directory; to be raised when an older version could not read it rightly."""

_LOCK = "lock"
_CONFIG = "config.json"
_PARTS = ("model", "training", "run", "data")
_STEP = "step"
_Config = TypeVar("_Config", bound=Config)


class LoadedModel(NamedTuple):
    """A model and the weights that it was given.

    Attributes:
        model: The model.
        weights: The name of their file, with its path if it lies in no model directory
            of this model's.
        step: The number of updates behind them; of an average, behind its newest
            checkpoint. None if the file does not tell.
    """

    model: Transformer
    weights: str
    step: int | None


class OpenTranslator(NamedTuple):
    """A translator of a model directory, and what it was made of.

    Attributes:
        translator: The translator; it has the models.
        loaded: Those that were loaded, with the names of their weights.
    """

    translator: Translator
    loaded: list[LoadedModel]


class ModelDir:
    """The directory of one model.

    Args:
        path: The directory.
        **checkpoints: Arguments of `CheckpointStore`.
    """

    def __init__(self, path: str | Path, **checkpoints: Any) -> None:
        self.path = Path(path)
        self.checkpoints = CheckpointStore(self.path / "checkpoints", **checkpoints)
        self.averaged_path = self.path / "averaged.npz"
        self.ema_path = self.path / "ema.npz"
        self.log_dir = self.path / "logs"

    @property
    def config(self) -> dict[str, Any]:
        """What training wrote: "model", "training", "run" and "data".

        Raises:
            UserError: If the directory holds no model, or the file is damaged.
        """
        path = self.path / _CONFIG
        with user_path(self.path, "read"):
            if not path.is_file():
                raise UserError(f"{self.path} holds no model ({_CONFIG}).")
        config = read_object(path)
        if config.get("format") != FORMAT:
            raise UserError(
                f"{self.path} was made by another version of t2t-keras: its format is "
                f"{config.get('format')}, this version reads {FORMAT}."
            )
        for part in _PARTS:
            if not isinstance(config.get(part), dict):
                raise UserError(f"{path} is damaged: it has no object {part!r}.")
        return config

    @property
    def search(self) -> dict[str, Any]:
        """Search options of the model's own, to use where a user names no others."""
        return dict(self.training_config.search)

    @property
    def transformer_config(self) -> TransformerConfig:
        """The configuration of the model.

        Raises:
            UserError: As `config`, or if it has a field that is not known here.
        """
        return self._section(TransformerConfig, "model")

    @property
    def training_config(self) -> TrainingConfig:
        """The configuration of the training.

        Raises:
            UserError: As `config`, or if it has a field that is not known here.
        """
        return self._section(TrainingConfig, "training", "run")

    def _section(self, kind: type[_Config], *names: str) -> _Config:
        config = self.config
        try:
            return kind.from_dict({k: v for n in names for k, v in config[n].items()})
        except UserError as error:
            raise UserError(f"{self.path / _CONFIG}: {error}") from error

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers that the model was trained with."""
        return TokenizerPair.load(self.path / TOKENIZER_DIR)

    def initialize(
        self,
        transformer: TransformerConfig,
        training: TrainingConfig,
        data: PreparedData,
    ) -> None:
        """Makes the directory, or updates it for the same training.

        Args:
            transformer: The configuration of the model.
            training: The configuration of the training.
            data: What is trained on; its tokenizers and held-back text are copied.

        Raises:
            UserError: If the directory holds a model of other arguments, or one
                trained in another way or on other data.
        """
        of_training, of_run = training.sections()
        config = {
            "format": FORMAT,
            "model": transformer.to_dict(),
            "training": of_training,
            "run": of_run,
            "data": data.manifest,
        }
        if (self.path / _CONFIG).is_file():
            self.check_same_training(transformer, training, data)
            self._write_config(config)
            return
        self.path.mkdir(parents=True, exist_ok=True)
        data.tokenizers.save(self.path / TOKENIZER_DIR)
        for split in ("dev", "test"):
            for side in ("source", "target"):
                source = text_path(data.data_dir, split, side)
                if source.is_file():
                    shutil.copyfile(source, text_path(self.path, split, side))
        # Last, since it is what makes the directory a model's.
        self._write_config(config)

    def _write_config(self, config: dict[str, Any]) -> None:
        write_atomically(
            self.path / _CONFIG, json.dumps(config, indent=2).encode() + b"\n"
        )

    def check_same_training(
        self,
        transformer: TransformerConfig,
        training: TrainingConfig,
        data: PreparedData,
    ) -> None:
        """Raises a `UserError` as `initialize` does, and writes nothing."""
        if (self.path / _CONFIG).is_file():
            check_same_training(
                self.path,
                self.config["data"],
                (self.transformer_config, self.training_config),
                (transformer, training),
                data,
            )

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Makes sure that no other training writes here meanwhile.

        Raises:
            UserError: If another one does, or the directory may not be written to.
        """
        make_directory(self.path)
        with locked(
            self.path / _LOCK,
            f"Another training is running on {self.path}. Wait for it, or choose "
            "another --model_dir.",
        ):
            self.checkpoints.remove_half_written()
            yield

    def is_locked(self) -> bool:
        """Tells whether a training is running here."""
        return is_locked(self.path / _LOCK)

    def check_space(self, variables: Iterable[keras.Variable]) -> None:
        """Makes sure that a checkpoint has room, before any training.

        Args:
            variables: What a checkpoint holds.

        Raises:
            UserError: If the disk is too full.
        """
        needed = sum(v.value.dtype.size * math.prod(v.shape) for v in variables)
        free = shutil.disk_usage(self.path).free
        if free < needed:
            raise UserError(
                f"A checkpoint takes {needed / 1e6:,.0f} MB, but the disk of "
                f"{self.path} has {free / 1e6:,.0f} MB free."
            )

    def average(self, last: int = 0, best: int = 0) -> list[int]:
        """Writes the average of the newest checkpoints, or of the best.

        Args:
            last: How many of the newest.
            best: Or how many of those with the best figures on held-back data.

        Returns:
            Their steps, ascending; fewer than wanted if there are no more.

        Raises:
            UserError: If there is no such checkpoint, or one is damaged.
        """
        there = self.checkpoints.steps()
        if best:
            metric = self.training_config.early_stop_metric
            steps = sorted(self.checkpoints.best_steps(best, metric))
        else:
            steps = there[-last:]
        if not steps:
            raise UserError(
                f"{self.path} has no checkpoint yet"
                + (f" with a {metric}." if best else ".")
            )
        weights = average_weights([self.checkpoints.weights_path(s) for s in steps])
        # What training had come to, though the best may be older.
        save_arrays(self.averaged_path, {**weights, _STEP: np.array(there[-1])})
        return steps

    def checkpoint_to_resume(self, report: Callable[[str], None]) -> int | None:
        """Finds the checkpoint that training continues from.

        Args:
            report: As of `CheckpointStore.newest_whole`.

        Returns:
            Its step, or None if training starts from the beginning.

        Raises:
            UserError: If there are weights or checkpoints, but none from which
                training can continue. It would replace them with those of another.
        """
        step = self.checkpoints.newest_whole(report)
        averages = [p for p in (self.averaged_path, self.ema_path) if p.is_file()]
        if step is None and averages:
            raise UserError(
                f"{self.path} has weights, but no checkpoint to continue from. To "
                f"start a new training from them, pass --init_from={self.path} and "
                "another --model_dir. To start over here, remove "
                f"{' and '.join(map(str, averages))}."
            )
        return step

    def save_ema(self, arrays: dict[str, np.ndarray], step: int) -> None:
        """Writes the exponential average as it was after a step."""
        save_arrays(self.ema_path, {**arrays, _STEP: np.array(step)})

    def has_current_ema(self) -> bool:
        """Tells whether the exponential average is not older than the checkpoints."""
        with contextlib.suppress(DamagedCheckpoint):
            return self._is_up_to_date(self.ema_path)
        return False

    def _is_up_to_date(self, path: Path) -> bool:
        """Tells whether there is an average that training did not go on after."""
        if not path.is_file():
            return False
        steps = self.checkpoints.steps()
        return not steps or steps[-1] <= int(load_arrays(path, [_STEP])[_STEP])

    def weights_path(self, checkpoint: str = "auto") -> Path:
        """Finds weights.

        Args:
            checkpoint: "averaged", "ema", "latest", the number of a step, or a path;
                "auto" for the first of these that there is and that training did not
                go on after.

        Raises:
            UserError: If there are no such weights.
        """
        steps = self.checkpoints.steps()
        averages = {"averaged": self.averaged_path, "ema": self.ema_path}
        if checkpoint == "auto":
            checkpoint = next(
                (name for name in averages if self._is_up_to_date(averages[name])),
                "latest",
            )
        if checkpoint == "latest":
            if not steps:
                raise UserError(f"{self.path} has no checkpoint yet.")
            return self.checkpoints.weights_path(steps[-1])
        if checkpoint in averages:
            path = averages[checkpoint]
        elif checkpoint.isdecimal():
            path = self.checkpoints.weights_path(int(checkpoint))
        else:
            path = Path(checkpoint)
        with user_path(path, "read"):
            is_file = path.is_file()
        if not is_file:
            raise UserError(
                f"There is no checkpoint {path}. {self.path} has the steps {steps}."
            )
        return path

    def load(
        self, checkpoint: str = "auto", frozen: bool = False, **arguments: Any
    ) -> LoadedModel:
        """Builds the model, gives it weights, and tells which.

        Training and averaging may go on meanwhile: what "auto" and "latest" stand for
        is looked up once, here.

        Args:
            checkpoint: As of `weights_path`.
            frozen: Whether its weights will never change, in a process in which oneDNN
                assumes so (`t2t_keras.runtime.assumes_frozen_weights`). Default False.
            **arguments: Of `Transformer`, such as `dtype`, which is float32 by default,
                whatever Keras is configured with.

        Raises:
            UserError: If there are no such weights, or they are damaged.
        """
        arguments.setdefault("dtype", "float32")
        config = self.transformer_config
        path = self.weights_path(checkpoint)
        # Waiting for the disk and computing checksums leave Python free to build.
        with (
            ThreadPoolExecutor(1) as pool,
            weights_to_be_loaded(),
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
            checkpoints: The weights to load, as of `weights_path`; several are an
                ensemble. Default "auto".
            options: The search options. Default: those that the directory has.
            model: A model in memory to use in place of the directory's weights, such as
                one that is being trained. Default none.
            dtype: Dtype or dtype policy of the models that are loaded. Default float32.
            frozen: As of `load`.
            **arguments: Other arguments of `Translator`.

        Returns:
            The translator, and the models that were loaded.

        Raises:
            UserError: As of `load`.
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
        """Returns the translator of `open_translator`, of the same arguments."""
        return self.open_translator(*arguments, **keywords).translator

    def load_model(self, checkpoint: str = "auto", **arguments: Any) -> Transformer:
        """Returns the model of `load` alone."""
        return self.load(checkpoint, **arguments).model
