"""The configuration of training."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from t2t_keras.config.config_base import Config, option
from t2t_keras.errors import UserError

METRICS = ("val_nll", "val_loss", "val_perplexity", "val_accuracy", "val_bleu")
"""Metrics of the dev split that checkpoints can be compared by."""


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Config):
    """How a model is trained, when training ends, and what is kept and reported.

    The defaults are the paper's base model (section 5). Fields with help texts are
    flags of `t2t-train`, with the same names. Fields that `may_change` can have another
    value when a training is resumed; all others decide what is computed.

    Attributes:
        search: Search options (`SearchOptions`) that later stages use by default for
            the model, where they differ from the paper's. Default: none.

    Raises:
        UserError: If a value has the wrong type or is out of its range.
    """

    # What is minimized, and how.
    label_smoothing: float = option(
        0.1,
        "Label smoothing: probability spread over the vocabulary (section 5.4).",
        minimum=0,
        maximum=1,
    )
    r_drop: float | None = option(
        None,
        "Weight of the R-Drop KL divergence between two predictions (Liang et al., "
        "2021, alpha).",
        minimum=0,
        unset="no R-Drop",
    )
    learning_rate: float = option(
        1.0, "Factor of the learning rate schedule (section 5.3).", minimum=0
    )
    warmup_steps: int = option(
        4000, "Number of warm-up steps of the learning rate.", minimum=1
    )
    clip_norm: float | None = option(
        None,
        "Maximum global norm of the gradients; larger ones are clipped.",
        minimum=0,
        unset="no clipping",
    )
    ema_decay: float | None = option(
        None,
        "Decay of an exponential moving average of the weights, which is saved as "
        "ema.npz.",
        unset="no average",
    )
    batch_tokens: int = option(
        25_000,
        "Number of tokens per side in a batch over all replicas, the effective batch "
        "size.",
        minimum=1,
    )
    batch_sentences: int | None = option(
        None,
        "Maximum number of sentence pairs in a batch, beside batch_tokens.",
        minimum=1,
        unset="no limit",
    )
    pad_to_boundary: bool | None = option(
        None,
        "Pad batches to a few fixed shapes, which costs padding but compiles less "
        "often.",
        unset="only with XLA or on a TPU",
    )
    precision: str = option(
        "float32",
        "Dtype policy of Keras. mixed_float16 uses dynamic loss scaling.",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
    )

    # How long.
    train_steps: int | None = option(
        100_000,
        "Maximum number of training steps (updates). With another limit, the preset's "
        "number of steps does not apply.",
        minimum=1,
        unset="no limit",
        may_change=True,
    )
    train_epochs: float | None = option(
        None,
        "Maximum number of passes over the training data.",
        minimum=0,
        unset="no limit",
        may_change=True,
    )
    train_tokens: float | None = option(
        None,
        "Maximum number of training tokens, source and target.",
        minimum=0,
        unset="no limit",
        may_change=True,
    )
    train_minutes: float | None = option(
        None,
        "Maximum training time in minutes.",
        minimum=0,
        unset="no limit",
        may_change=True,
    )
    cooldown: float = option(
        0.0,
        "Fraction of the training, at its end, over which the learning rate falls "
        "linearly to zero (0 = off).",
        minimum=0,
        maximum=1,
        may_change=True,
    )
    early_stop_metric: str = option(
        "val_nll",
        "Metric of the dev split for early stopping and for keep_best.",
        choices=METRICS,
        may_change=True,
    )
    early_stop_patience: int | None = option(
        None,
        "Stop after this many consecutive validations without improvement. A larger "
        "number, or none, resumes a training that stopped so.",
        minimum=1,
        unset="no early stopping",
        may_change=True,
    )
    early_stop_threshold: float | None = option(
        None,
        "Stop early only once early_stop_metric has reached this value.",
        unset="any value",
        may_change=True,
    )
    max_skipped_steps: int = option(
        20,
        "Abort after more than this many consecutive steps with non-finite gradients.",
        minimum=0,
        may_change=True,
    )

    # How steps are computed.
    accumulate: int = option(
        0,
        "Number of gradient accumulation steps per update (0 = as many as keep a "
        "replica's share at 4,096 tokens).",
        minimum=0,
        may_change=True,
    )
    jit: bool = option(False, "Compile the training step with XLA.", may_change=True)
    deterministic: bool = option(
        False,
        "Use deterministic operations on GPUs, at some cost in speed. On CPUs, equal "
        "seeds give equal losses anyway.",
        may_change=True,
    )

    # Checkpoints and validation.
    checkpoint_minutes: float = option(
        10.0,
        "Minutes between validations, each of which saves a checkpoint.",
        minimum=0,
        may_change=True,
    )
    checkpoint_steps: int | None = option(
        None,
        "Steps between validations, in place of checkpoint_minutes.",
        minimum=1,
        unset="checkpoint_minutes",
        may_change=True,
    )
    keep_checkpoints: int = option(
        20, "Number of most recent checkpoints to keep.", minimum=1, may_change=True
    )
    keep_best: int = option(
        5,
        "Number of best checkpoints, by early_stop_metric, to keep as well.",
        minimum=0,
        may_change=True,
    )
    average_last: int = option(
        5,
        "Number of most recent checkpoints that t2t-average averages.",
        minimum=1,
        may_change=True,
    )
    bleu_sentences: int = option(
        200,
        "Number of dev sentences to translate greedily for val_bleu (0 = none).",
        minimum=0,
        may_change=True,
    )
    bleu_tokenizer: str = "auto"
    sample_sentences: int = option(
        2,
        "Number of dev translations to show after each validation.",
        minimum=0,
        may_change=True,
    )

    # Reports.
    report_seconds: float = option(
        10.0, "Seconds between progress reports.", minimum=0, may_change=True
    )
    log_format: str = option(
        "auto",
        "Format of progress reports: lines of text or of JSON, or auto, which draws a "
        "progress bar on a terminal.",
        choices=("auto", "text", "json"),
        may_change=True,
    )
    profile_steps: tuple[int, int] | None = option(
        None,
        "First and last step to profile for TensorBoard, as in 10,12.",
        unset="no profile",
        may_change=True,
    )
    search: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("r_drop", "clip_norm"):
            if getattr(self, name) == 0:
                raise UserError(f"{name} must be positive or None. Received: 0")
        for name in ("label_smoothing", "cooldown"):
            if getattr(self, name) == 1:
                raise UserError(f"{name} must be below 1. Received: 1")
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise UserError(
                f"ema_decay must be between 0 and 1. Received: {self.ema_decay}"
            )
        if self.profile_steps is not None and len(self.profile_steps) != 2:
            raise UserError(
                "profile_steps must be the first and the last step to profile, such as "
                f"10,12. Received: {self.profile_steps}"
            )

    @classmethod
    def resumable_names(cls) -> tuple[str, ...]:
        """Returns the fields that may differ when a training is resumed."""
        return tuple(
            field.name
            for field in dataclasses.fields(cls)
            if not field.metadata or field.metadata["may_change"]
        )

    def sections(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the two sections of a model directory's `config.json`.

        Returns:
            "training", which decides what is computed, and "run", which may change
            when the training is resumed.
        """
        values, run = self.to_dict(), self.resumable_names()
        return (
            {name: value for name, value in values.items() if name not in run},
            {name: value for name, value in values.items() if name in run},
        )
