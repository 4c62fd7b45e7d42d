"""Table 3 of the paper: the changes of each row to base, and published results."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Variation(NamedTuple):
    """A row of Table 3.

    Attributes:
        group: Letter of the row in the paper, or "base" or "big".
        perplexity: Published perplexity per word piece on newstest2013.
        bleu: Published BLEU on newstest2013.
        parameters: Published number of parameters, in millions.
        factors: Factors by which to multiply values of base. They apply to a base of
            any size.
        values: Values to set.
    """

    group: str
    perplexity: float
    bleu: float
    parameters: int
    factors: Mapping[str, float] = {}
    values: Mapping[str, Any] = {}


def _layers(factor: float) -> dict[str, float]:
    return {"num_layers": factor, "num_decoder_layers": factor}


VARIATIONS: dict[str, Variation] = {
    "base": Variation("base", 4.92, 25.8, 65),
    "num_heads_1": Variation("A", 5.29, 24.9, 65, {"num_heads": 1 / 8}),
    "num_heads_4": Variation("A", 5.00, 25.5, 65, {"num_heads": 1 / 2}),
    "num_heads_16": Variation("A", 4.91, 25.8, 65, {"num_heads": 2}),
    "num_heads_32": Variation("A", 5.01, 25.4, 65, {"num_heads": 4}),
    "d_k_16": Variation("B", 5.16, 25.1, 58, {"d_k": 1 / 4}),
    "d_k_32": Variation("B", 5.01, 25.4, 60, {"d_k": 1 / 2}),
    "num_layers_2": Variation("C", 6.11, 23.7, 36, _layers(1 / 3)),
    "num_layers_4": Variation("C", 5.19, 25.3, 50, _layers(2 / 3)),
    "num_layers_8": Variation("C", 4.88, 25.5, 80, _layers(4 / 3)),
    "d_model_256": Variation("C", 5.75, 24.5, 28, {"d_model": 1 / 2}),
    "d_model_1024": Variation("C", 4.66, 26.0, 168, {"d_model": 2}),
    "d_ff_1024": Variation("C", 5.12, 25.4, 53, {"d_ff": 1 / 2}),
    "d_ff_4096": Variation("C", 4.75, 26.2, 90, {"d_ff": 2}),
    "dropout_0": Variation("D", 5.77, 24.6, 65, values={"dropout": 0.0}),
    "dropout_0.2": Variation("D", 4.95, 25.5, 65, values={"dropout": 0.2}),
    "label_smoothing_0": Variation("D", 4.67, 25.3, 65, {}, {"label_smoothing": 0.0}),
    "label_smoothing_0.2": Variation("D", 5.47, 25.7, 65, {}, {"label_smoothing": 0.2}),
    "learned_position": Variation("E", 4.92, 25.7, 65, values={"position": "learned"}),
    "big": Variation(
        "big",
        4.33,
        26.4,
        213,
        {"d_model": 2, "d_ff": 2, "num_heads": 2, "train_steps": 3},
        {"dropout": 0.3},
    ),
}
"""The rows in the paper's order, named after what they change in the paper's base.

Rows A and B of the paper give d_k; in A it follows from the number of heads, in B the
values keep their size.
"""
