"""Begins a training with the weights of another."""

from collections.abc import Iterable, Mapping, Sequence

import keras
import numpy as np

from t2t_keras.errors import UserError


def warm_start(
    variables: Iterable[keras.Variable],
    arrays: dict[str, np.ndarray],
    pieces: Mapping[str, tuple[Sequence[str], Sequence[str]]],
) -> list[str]:
    """Gives variables the values of another model, as far as they fit.

    Args:
        variables: The trainable variables of the new model.
        arrays: The weights of the other, under their paths.
        pieces: For each path of an embedding matrix, the tokens of the new and those
            of the other vocabulary. Rows go with their token, so that the size and
            the order of the vocabularies may differ; new tokens keep their random
            vectors.

    Returns:
        The paths of the variables that found nothing that fits.

    Raises:
        UserError: If no matrix fits at all.
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
    # A bias here and there may fit by chance.
    if all(v.path in unmatched for v in variables if len(v.shape) > 1):
        raise UserError(
            "Not one matrix has the name and the shape of one of this model: was the "
            "other trained with another d_model?"
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
