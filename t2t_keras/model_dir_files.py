"""The files of a model directory.

A model directory contains everything that later stages need:

config.json                 configurations of the model and the training, and the
                            manifest of the training data
tokenizer/                  vocabularies
dev.source.txt ...          held-out text
checkpoints/                weights and training state
averaged.npz                average of several checkpoints
ema.npz                     exponential moving average kept by the training
imported.npz                weights of an imported model, in place of checkpoints
lock                        locked while a training is running
scores.test.json ...        results of t2t-evaluate, beside the translations
logs/                       TensorBoard
"""

import contextlib
import json
import math
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import keras

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.config.config_base import Config
from t2t_keras.data.prepared_data import TOKENIZER_DIR, PreparedData, text_path
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.errors import UserError
from t2t_keras.files import (
    is_locked,
    locked,
    make_directory,
    user_path,
    write_atomically,
)
from t2t_keras.json_file import read_object
from t2t_keras.same_training import check_same_training
from t2t_keras.training.checkpoints import CheckpointStore

FORMAT = 2
"""Version of the format. Raise it if older versions would misread the directory."""

CONFIG = "config.json"
"""Name of the file that makes a directory a model directory."""

IMPORTED_WEIGHTS = "imported.npz"
"""Name of the weight file of an imported model."""

_LOCK = "lock"
_PARTS = ("model", "training", "run", "data")
_Config = TypeVar("_Config", bound=Config)


class ModelFiles:
    """The configuration, tokenizers and other files of a model directory.

    `ModelDir` adds the weights and models.

    Args:
        path: The directory.
        **checkpoints: Arguments of `CheckpointStore`.

    Attributes:
        path: The directory.
        checkpoints: The checkpoints.
        config_path: Path of the file that makes a directory a model directory.
        averaged_path: Path of the average of several checkpoints.
        ema_path: Path of the exponential moving average.
        imported_path: Path of the weights of an imported model.
        log_dir: Directory of the TensorBoard logs.
    """

    def __init__(self, path: str | Path, **checkpoints: Any) -> None:
        self.path = Path(path)
        self.checkpoints = CheckpointStore(self.path / "checkpoints", **checkpoints)
        self.config_path = self.path / CONFIG
        self.averaged_path = self.path / "averaged.npz"
        self.ema_path = self.path / "ema.npz"
        self.imported_path = self.path / IMPORTED_WEIGHTS
        self.log_dir = self.path / "logs"

    @property
    def config(self) -> dict[str, Any]:
        """Content of config.json, with the keys "model", "training", "run" and "data".

        Raises:
            UserError: If the directory contains no model, or the file is damaged.
        """
        path = self.config_path
        with user_path(self.path, "read"):
            if not path.is_file():
                raise UserError(f"{self.path} holds no model ({CONFIG}).")
        config = read_object(path)
        if config.get("format") != FORMAT:
            raise UserError(
                f"The format of {self.path} must be {FORMAT}. Received: "
                f"{config.get('format')}. Another version of t2t-keras wrote it."
            )
        for part in _PARTS:
            if not isinstance(config.get(part), dict):
                raise UserError(f"{path} is damaged: it has no object {part!r}.")
        return config

    @property
    def search(self) -> dict[str, Any]:
        """The model's search options, used unless the user sets others."""
        return dict(self.training_config.search)

    @property
    def transformer_config(self) -> TransformerConfig:
        """The configuration of the model.

        Raises:
            UserError: As for `config`, or if a field is unknown.
        """
        return self._section(TransformerConfig, "model")

    @property
    def training_config(self) -> TrainingConfig:
        """The configuration of the training.

        Raises:
            UserError: As for `config`, or if a field is unknown.
        """
        return self._section(TrainingConfig, "training", "run")

    def _section(self, kind: type[_Config], *names: str) -> _Config:
        config = self.config
        try:
            return kind.from_dict({k: v for n in names for k, v in config[n].items()})
        except UserError as error:
            raise UserError(f"{self.config_path}: {error}") from error

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
        """Creates the directory, or updates it for the same training.

        Args:
            transformer: The configuration of the model.
            training: The configuration of the training.
            data: The training data; its tokenizers and held-out text are copied.

        Raises:
            UserError: If the directory contains a model with other hyper-parameters,
                or one trained on other data.
        """
        training_section, run_section = training.sections()
        config = {
            "format": FORMAT,
            "model": transformer.to_dict(),
            "training": training_section,
            "run": run_section,
            "data": data.manifest,
        }
        if self.config_path.is_file():
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
        # Last, because this file makes the directory a complete model directory.
        self._write_config(config)

    def _write_config(self, config: dict[str, Any]) -> None:
        write_atomically(
            self.config_path, json.dumps(config, indent=2).encode() + b"\n"
        )

    def check_same_training(
        self,
        transformer: TransformerConfig,
        training: TrainingConfig,
        data: PreparedData,
    ) -> None:
        """Raises the `UserError` of `initialize`, but writes nothing."""
        if self.imported_path.is_file():
            raise UserError(
                f"{self.path} holds an imported model, which has no training to "
                f"resume. To train it further, pass --init_from={self.path} and "
                "another --model_dir."
            )
        if self.config_path.is_file():
            check_same_training(
                self.path,
                self.config["data"],
                (self.transformer_config, self.training_config),
                (transformer, training),
                data,
            )

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Prevents other trainings from writing to the directory at the same time.

        Raises:
            UserError: If another training is running, or the directory is not writable.
        """
        make_directory(self.path)
        with locked(
            self.path / _LOCK,
            f"Another training is running on {self.path}. Wait for it, or choose "
            "another --model_dir.",
        ):
            self.checkpoints.remove_unfinished_files()
            yield

    def is_locked(self) -> bool:
        """Returns whether a training is running on the directory."""
        return is_locked(self.path / _LOCK)

    def no_checkpoint_error(self, kind: str = "checkpoint") -> UserError:
        """Returns the error for a directory without checkpoints.

        Args:
            kind: What is missing, for the message. Default "checkpoint".
        """
        if self.imported_path.is_file():
            return UserError(
                f"{self.path} holds an imported model, which has no {kind}."
            )
        return UserError(f"{self.path} has no {kind} yet.")

    def check_space(self, variables: Iterable[keras.Variable]) -> None:
        """Checks that the disk has space for a checkpoint.

        Args:
            variables: The variables of a checkpoint.

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
