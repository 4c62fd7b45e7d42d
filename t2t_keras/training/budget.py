"""The training budget: limits at which training ends."""

import dataclasses

from t2t_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class TrainingBudget:
    """Limits of a training; the first one reached ends it.

    Args:
        steps: Maximum number of updates. Default: no limit.
        epochs: Maximum number of epochs. Default: no limit.
        tokens: Maximum number of source and target tokens. Default: no limit.
        minutes: Maximum minutes of training, including those before a restart.
            Default: no limit.

    Raises:
        UserError: If there is no limit, or one is not positive.
    """

    steps: int | None = None
    epochs: float | None = None
    tokens: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        limits = [x for x in dataclasses.astuple(self) if x is not None]
        if not limits or not all(limit > 0 for limit in limits):
            raise UserError(
                f"A training needs at least one limit, and limits must be positive. "
                f"Received: {self}"
            )

    def fraction(
        self, steps: int, epochs: float, tokens: float, minutes: float = 0.0
    ) -> float:
        """Returns the fraction of the budget that is spent; training ends at 1.

        Args:
            steps: Number of completed updates.
            epochs: Number of completed epochs, with fractions.
            tokens: Number of tokens trained on.
            minutes: Minutes trained. Default 0, which ignores that limit.
        """
        spent = [
            done / limit
            for done, limit in (
                (steps, self.steps),
                (epochs, self.epochs),
                (tokens, self.tokens),
                (minutes, self.minutes),
            )
            if limit is not None
        ]
        return min(1.0, max(spent))
