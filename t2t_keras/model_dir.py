"""A model directory: all that later stages need, in one place.

config.json                 arguments of the model, the training and the run; the
                            data's manifest
tokenizer/                  the vocabulary
dev.source.txt ...          held-back text
checkpoints/                weights and state of the run
averaged.npz                the averaged weights
scores.test.json ...        what t2t-evaluate found, beside the translations
logs/                       TensorBoard
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.data.preparation import TOKENIZER_DIR, PreparedData, text_path
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.files import write_atomically
from t2t_keras.training.averaging import average_weights
from t2t_keras.training.checkpoints import (
    CheckpointStore,
    assign_arrays,
    load_arrays,
    save_arrays,
)
from t2t_keras.transformer import Transformer

_CONFIG = "config.json"
_STEPS = "averaged_steps"


class ModelDir:
    """The directory of one model.

    Args:
        path: The directory.
        keep: How many checkpoints to keep. Default 20.
    """

    def __init__(self, path: str | Path, keep: int = 20) -> None:
        self.path = Path(path)
        self.checkpoints = CheckpointStore(self.path / "checkpoints", keep)
        self.averaged_path = self.path / "averaged.npz"
        self.log_dir = self.path / "logs"

    @property
    def config(self) -> dict[str, Any]:
        """What training wrote: "model", "training", "run" and "data".

        Raises:
            ValueError: If the directory holds no model, or the file is damaged.
        """
        path = self.path / _CONFIG
        if not path.is_file():
            raise ValueError(f"{self.path} holds no model ({_CONFIG}).")
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}") from error

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers that the model was trained with."""
        return TokenizerPair.load(self.path / TOKENIZER_DIR)

    def initialize(
        self,
        model: dict[str, Any],
        training: dict[str, Any],
        run: dict[str, Any],
        data: PreparedData,
    ) -> None:
        """Makes the directory, or makes sure that it belongs to the same training.

        Args:
            model: The arguments of `Transformer`.
            training: Everything else that decides what is computed.
            run: What may change when training goes on, such as its end.
            data: What is trained on; its tokenizers and held-back text are copied.

        Raises:
            ValueError: If the directory holds a model of other arguments, or one
                trained in another way or on other data.
        """
        config = {
            "model": model,
            "training": training,
            "run": run,
            "data": data.manifest,
        }
        if (self.path / _CONFIG).is_file():
            self._check_same_training(config, data)
            self._write_config(config)
            return
        if self.path.resolve() == data.data_dir.resolve():
            raise ValueError(
                f"{self.path} holds the prepared data. Choose another --model_dir."
            )
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

    def _check_same_training(self, wanted: dict[str, Any], data: PreparedData) -> None:
        there = self.config
        trained_with = there["data"]["vocabulary_fingerprint"]
        if trained_with != data.tokenizers.fingerprint:
            raise ValueError(
                f"{data.data_dir} was prepared with another vocabulary "
                f"({data.tokenizers.fingerprint}) than the model in {self.path} was "
                f"trained with ({trained_with}). Prepare the data with "
                f"--vocabulary_from={self.path}, or choose another --model_dir."
            )
        if there["data"]["splits"]["train"] != wanted["data"]["splits"]["train"]:
            raise ValueError(
                f"{data.data_dir} holds other training data than the model in "
                f"{self.path} was trained on. Choose another --model_dir."
            )
        differences = [
            f"{name} is {there[section].get(name)!r} there and {value!r} here"
            for section in ("model", "training")
            for name, value in wanted[section].items()
            if there[section].get(name) != value
        ]
        if differences:
            raise ValueError(
                f"{self.path} holds a model of other arguments: "
                f"{'; '.join(differences)}. Choose another --model_dir."
            )

    def average(self, last: int) -> list[int]:
        """Writes the average of the newest checkpoints.

        Args:
            last: How many of them.

        Returns:
            Their steps, ascending; fewer than wanted if there are no more.

        Raises:
            ValueError: If there is no checkpoint, or one is damaged.
        """
        steps = self.checkpoints.steps()[-last:]
        if not steps:
            raise ValueError(f"{self.path} has no checkpoint yet.")
        weights = average_weights([self.checkpoints.weights_path(s) for s in steps])
        save_arrays(self.averaged_path, {**weights, _STEPS: np.array(steps)})
        return steps

    def _averaged_is_newest(self) -> bool:
        """Tells whether there is an average that training did not go on after."""
        if not self.averaged_path.is_file():
            return False
        steps = self.checkpoints.steps()
        averaged = load_arrays(self.averaged_path)[_STEPS]
        return not steps or steps[-1] <= averaged.max()

    def weights_path(self, checkpoint: str = "auto") -> Path:
        """Finds weights.

        Args:
            checkpoint: "auto" for the averaged weights, or for the newest if there
                are none or training went on after them; "averaged"; "latest"; the
                number of a step; or a path.

        Raises:
            ValueError: If there are no such weights.
        """
        steps = self.checkpoints.steps()
        if checkpoint == "auto":
            checkpoint = "averaged" if self._averaged_is_newest() else "latest"
        if checkpoint == "latest":
            if not steps:
                raise ValueError(f"{self.path} has no checkpoint yet.")
            return self.checkpoints.weights_path(steps[-1])
        if checkpoint == "averaged":
            path = self.averaged_path
        elif checkpoint.isdecimal():
            path = self.checkpoints.weights_path(int(checkpoint))
        else:
            path = Path(checkpoint)
        if not path.is_file():
            raise ValueError(
                f"There is no checkpoint {path}. {self.path} has the steps {steps}."
            )
        return path

    def load_model(self, checkpoint: str = "auto", **arguments: Any) -> Transformer:
        """Builds the model and gives it weights.

        Args:
            checkpoint: As of `weights_path`.
            **arguments: Replace those of the config, such as `dtype`.

        Raises:
            ValueError: If there are no such weights, or they are damaged.
        """
        model = Transformer(**{**self.config["model"], **arguments})
        path = self.weights_path(checkpoint)
        assign_arrays(model.variables, load_arrays(path), path)
        return model
