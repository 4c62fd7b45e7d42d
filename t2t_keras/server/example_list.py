"""The tensorflow.Examples of a request, as input of a signature."""

import numpy as np
from tensorflow_serving.apis import input_pb2

from t2t_keras.server.serving_errors import invalid

EXAMPLES_INPUT = "inputs"
"""Name of the only input of a signature that takes Examples."""


def read_examples(
    examples_input: input_pb2.Input, max_bytes: int | None = None
) -> np.ndarray:
    """Returns the Examples of a request, serialized, `[batch]`.

    The features of a context are prepended to each Example, so that an Example's own
    features override those of the same name.

    Args:
        examples_input: Examples of the request, with or without a shared context.
        max_bytes: Maximum size in bytes; the context counts once per Example. Default
            no limit.

    Raises:
        ServingError: If there are no Examples or they are too large.
    """
    context = b""
    if examples_input.WhichOneof("kind") == "example_list_with_context":
        context = examples_input.example_list_with_context.context.SerializeToString()
        examples = examples_input.example_list_with_context.examples
    else:
        examples = examples_input.example_list.examples
    if not examples:
        raise invalid("Input is empty: it has no Examples.")
    serialized = np.empty(len(examples), object)
    size = 0
    for number, example in enumerate(examples):
        serialized[number] = context + example.SerializeToString()
        size += len(serialized[number])
        if max_bytes is not None and size > max_bytes:
            raise invalid(
                f"The Examples take more than the maximum of {max_bytes:,} bytes. "
                "The context counts once per Example."
            )
    return serialized
