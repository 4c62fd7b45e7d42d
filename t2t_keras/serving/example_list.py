"""The tensorflow.Examples of a request, as a signature takes them."""

import numpy as np
from tensorflow_serving.apis import input_pb2

from t2t_keras.serving.errors import invalid

EXAMPLES_INPUT = "inputs"
"""The only input of a signature that takes Examples."""


def read_examples(given: input_pb2.Input) -> np.ndarray:
    """Returns the Examples of a request as they are fed: serialized, `[batch]`.

    Where they have a context, its features come first, so that an Example's own go
    before those of the same name.

    Raises:
        ServingError: If there are none.
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
    found[:] = [context + example.SerializeToString() for example in examples]
    return found
