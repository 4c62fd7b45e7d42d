"""How long to train."""

import dataclasses

from t2t_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class TrainingBudget:
    """Ends training at whichever limit is reached first.

    Args:
        steps: Updates. Default no limit.
        epochs: Passes over the data. Default no limit.
        tokens: Tokens of source and target. Default no limit.
        minutes: Minutes of training, those before a restart included. Default no
            limit.

    Raises:
        UserError: If there is no limit at all, or one is not positive.
    """

    steps: int | None = None
    epochs: float | None = None
    tokens: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        limits = [x for x in dataclasses.astuple(self) if x is not None]
        if not limits or not all(limit > 0 for limit in limits):
            raise UserError(
                f"Training needs a limit, and a positive one. Received: {self}"
            )

    def fraction(
        self, steps: int, epochs: float, tokens: float, minutes: float = 0.0
    ) -> float:
        """Tells how much of the budget is spent, 1 when training is to end.

        Args:
            steps: Updates done.
            epochs: Passes over the data done, with fractions.
            tokens: Tokens trained on.
            minutes: Minutes trained. Default 0, which leaves them out of account.
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
