"""Initializes a model with the weights of another."""

from collections.abc import Iterable, Mapping, Sequence

import keras
import numpy as np

from t2t_keras.errors import UserError


def warm_start(
    variables: Iterable[keras.Variable],
    arrays: dict[str, np.ndarray],
    pieces: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> list[str]:
    """Copies the weights of another model into variables of matching shapes.

    Args:
        variables: The trainable variables of the new model.
        arrays: The weights of the other model, by path.
        pieces: For the path of each embedding matrix, the tokens of the new and of the
            other vocabulary. Rows are matched by token, so that the vocabularies may
            differ in size and order. New tokens keep their random embeddings.

    Returns:
        The paths of the variables without a match, which keep their values.

    Raises:
        UserError: If no matrix matches.
    """
    variables = list(variables)
    unmatched = []
    for variable in variables:
        array = arrays.get(variable.path)
        if variable.path in pieces and array is not None:
            if array.shape[1:] == tuple(variable.shape[1:]):
                new, other = pieces[variable.path]
                variable.assign(_match_rows(variable.numpy(), new, array, other))
                continue
        elif array is not None and array.shape == tuple(variable.shape):
            variable.assign(array)
            continue
        unmatched.append(variable.path)
    # Biases do not count: a few may match by chance.
    if all(v.path in unmatched for v in variables if len(v.shape) > 1):
        raise UserError(
            "No matrix of the other model has the name and shape of one of this model. "
            "Were they trained with different values of d_model?"
        )
    return unmatched


def _match_rows(
    values: np.ndarray, new: Sequence[str], array: np.ndarray, other: Sequence[str]
) -> np.ndarray:
    place = {piece: row for row, piece in enumerate(other)}
    rows = [(row, place[piece]) for row, piece in enumerate(new) if piece in place]
    result = values.copy()
    if rows:
        mine, theirs = (np.array(side) for side in zip(*rows, strict=True))
        result[mine] = array[theirs]
    return result
