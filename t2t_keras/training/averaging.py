"""The average of several checkpoints (section 6.1)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from t2t_keras.training.checkpoints import load_arrays


def average_weights(paths: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """Averages the weights of checkpoints, one file in memory at a time.

    Args:
        paths: Files of weights of one and the same model.

    Returns:
        The mean of each float array, summed in float64; of an integer one the last.

    Raises:
        ValueError: If there are no paths, a file is damaged, or the files are of
            different models.
    """
    if not paths:
        raise ValueError("There is no checkpoint to average.")
    total: dict[str, np.ndarray] = {}
    dtypes: dict[str, np.dtype] = {}
    for path in paths:
        arrays = load_arrays(path)
        shapes = {name: array.shape for name, array in arrays.items()}
        if total and shapes != {name: array.shape for name, array in total.items()}:
            raise ValueError(f"{path} is of another model than {paths[0]}.")
        for name, array in arrays.items():
            dtypes[name] = array.dtype
            if name in total and np.issubdtype(array.dtype, np.floating):
                total[name] += array
            else:
                total[name] = array.astype(
                    np.float64 if np.issubdtype(array.dtype, np.floating) else None
                )
    return {
        name: (
            (array / len(paths)).astype(dtypes[name])
            if np.issubdtype(dtypes[name], np.floating)
            else array
        )
        for name, array in total.items()
    }
