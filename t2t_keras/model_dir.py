"""A model directory: all that later stages need, in one place.

config.json                 the model's arguments, training's, the data's manifest
tokenizer/                  the vocabulary
dev.source.txt ...          held-back text
checkpoints/                weights and state of the run
averaged.npz                the averaged weights
logs/                       TensorBoard
"""

import json
import shutil
from pathlib import Path
from typing import Any

from t2t_keras.data.preparation import TOKENIZER_DIR, PreparedData, text_path
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.files import write_atomically
from t2t_keras.training.checkpoints import (
    CheckpointStore,
    assign_arrays,
    load_arrays,
)
from t2t_keras.transformer import Transformer

_CONFIG = "config.json"


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
        """What training wrote: "model", "training" and "data".

        Raises:
            ValueError: If the directory holds no model.
        """
        path = self.path / _CONFIG
        if not path.is_file():
            raise ValueError(f"{self.path} holds no model ({_CONFIG}).")
        return json.loads(path.read_text())

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers that the model was trained with."""
        return TokenizerPair.load(self.path / TOKENIZER_DIR)

    def initialize(
        self, model: dict[str, Any], training: dict[str, Any], data: PreparedData
    ) -> None:
        """Makes the directory, or makes sure that it belongs to the same run.

        Args:
            model: The arguments of `Transformer`.
            training: Everything else that the run was told.
            data: What is trained on; its tokenizers and held-back text are copied.

        Raises:
            ValueError: If the directory holds a model of other arguments, or one
                trained with another vocabulary.
        """
        if (self.path / _CONFIG).is_file():
            self._check_same_run(model, data)
            return
        self.path.mkdir(parents=True, exist_ok=True)
        data.tokenizers.save(self.path / TOKENIZER_DIR)
        for split in ("dev", "test"):
            for side in ("source", "target"):
                source = text_path(data.data_dir, split, side)
                if source.is_file():
                    shutil.copyfile(source, text_path(self.path, split, side))
        config = {"model": model, "training": training, "data": data.manifest}
        # Last, since it is what makes the directory a model's.
        write_atomically(
            self.path / _CONFIG, json.dumps(config, indent=2).encode() + b"\n"
        )

    def _check_same_run(self, model: dict[str, Any], data: PreparedData) -> None:
        config = self.config
        trained_with = config["data"]["vocabulary_fingerprint"]
        if trained_with != data.tokenizers.fingerprint:
            raise ValueError(
                f"{data.data_dir} was prepared with another vocabulary "
                f"({data.tokenizers.fingerprint}) than the model in {self.path} was "
                f"trained with ({trained_with}). Prepare the data with "
                f"--vocabulary_from={self.path}, or choose another --model_dir."
            )
        differences = [
            f"{name} is {config['model'].get(name)!r} there and {value!r} here"
            for name, value in model.items()
            if config["model"].get(name) != value
        ]
        if differences:
            raise ValueError(
                f"{self.path} holds a model of other arguments: "
                f"{'; '.join(differences)}. Choose another --model_dir."
            )

    def weights_path(self, checkpoint: str = "auto") -> Path:
        """Finds weights.

        Args:
            checkpoint: "auto" for the averaged weights if there are any, otherwise
                the newest; "averaged"; "latest"; the number of a step; or a path.

        Raises:
            ValueError: If there are no such weights.
        """
        steps = self.checkpoints.steps()
        if checkpoint == "auto":
            checkpoint = "averaged" if self.averaged_path.is_file() else "latest"
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
