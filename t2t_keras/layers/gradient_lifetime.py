"""Custom gradients that are freed together with their graph."""

import weakref
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops


def free_gradient_with_graph(result: tf.Tensor) -> None:
    """Lets the graph of a result of `tf.custom_gradient` be freed with its model.

    In a graph, `tf.custom_gradient` registers the gradient in a table of the process
    and never removes it. The gradient holds its graph, so that every model ever traced
    would stay in memory. Here the graph holds its gradient instead, and the table
    refers to it weakly. Gradients work as before while the graph exists.

    TensorFlow itself uses `tf.custom_gradient`, for example in `tf.nn.silu` and in
    `tf.distribute.ReplicaContext.all_reduce`.

    Args:
        result: A result of a function decorated with `tf.custom_gradient`. Nothing
            happens if it is eager, because nothing is registered then.
    """
    if tf.executing_eagerly():
        return
    registered = ops.gradient_registry._registry
    name = result.op.get_attr("_gradient_op_type").decode()
    gradient = registered[name]["type"]
    reference = weakref.ref(gradient)

    def gradient_of_live_graph(*arguments: Any) -> Any:
        live = reference()
        if live is None:
            raise LookupError(f"The graph of the gradient {name} no longer exists.")
        return live(*arguments)

    registered[name]["type"] = gradient_of_live_graph
    graph = result.graph
    graph.add_to_collection("custom_gradients", gradient)
    weakref.finalize(graph, registered.pop, name, None).atexit = False
