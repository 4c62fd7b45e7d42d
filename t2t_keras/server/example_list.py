"""The tensorflow.Examples of a request, as a signature takes them."""

import numpy as np
from tensorflow_serving.apis import input_pb2

from t2t_keras.server.serving_errors import invalid

EXAMPLES_INPUT = "inputs"
"""The only input of a signature that takes Examples."""


def read_examples(given: input_pb2.Input, max_bytes: int | None = None) -> np.ndarray:
    """Returns the Examples of a request as they are fed: serialized, `[batch]`.

    Where they have a context, its features come first, so that an Example's own go
    before those of the same name.

    Args:
        given: As they were sent.
        max_bytes: The most bytes that they may take, the context with each of them.
            Default no limit.

    Raises:
        ServingError: If there are none, or they take more.
    """
    context = b""
    if given.WhichOneof("kind") == "example_list_with_context":
        context = given.example_list_with_context.context.SerializeToString()
        examples = given.example_list_with_context.examples
    else:
        examples = given.example_list.examples
    if not examples:
        raise invalid("Input is empty: it has no Examples.")
    found = np.empty(len(examples), object)
    taken = 0
    for number, example in enumerate(examples):
        found[number] = context + example.SerializeToString()
        taken += len(found[number])
        if max_bytes is not None and taken > max_bytes:
            raise invalid(
                f"The Examples take more than a request may have, {max_bytes:,} bytes. "
                "Their context counts with each of them."
            )
    return found
