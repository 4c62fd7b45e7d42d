"""The paper's equations in NumPy float64, independent of the library's code.

Weights are looked up by the names of the library's variables. The mathematics is an
independent implementation of "Attention Is All You Need".
"""

import math

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, mask=None):
    """Equation 1."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ v, weights


def weights_of(layer):
    """Returns the weights of a layer in float64, by path relative to the layer.

    Kernels are as in the paper: y = x W.
    """
    weights = {}
    for v in layer.weights:
        name = v.path.split("/", v.path.split("/").index(layer.name) + 1)[-1]
        value = np.array(v.numpy(), np.float64)
        weights[name] = value.T if name.endswith("/kernel") else value
    return weights


def part(weights, prefix):
    return {
        name.removeprefix(f"{prefix}/"): value
        for name, value in weights.items()
        if name.startswith(f"{prefix}/")
    }


def multi_head_attention(w, x, memory, mask, heads, d_k, d_v):
    """Section 3.2.2, computed head by head."""
    size = heads * d_k
    if memory is None:
        kernel = w["query_key_value/kernel"]
        wq, wk, wv = np.split(kernel, [size, 2 * size], axis=1)
        memory = x
    else:
        wq = w["query/kernel"]
        wk, wv = np.split(w["key_value/kernel"], [size], axis=1)
    outputs = []
    for h in range(heads):
        keys = slice(h * d_k, (h + 1) * d_k)
        values = slice(h * d_v, (h + 1) * d_v)
        head, _ = attention(
            x @ wq[:, keys], memory @ wk[:, keys], memory @ wv[:, values], mask
        )
        outputs.append(head)
    return np.concatenate(outputs, -1) @ w["output_projection/kernel"]


ACTIVATIONS = {
    "relu": lambda x: np.maximum(0, x),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "quick_gelu": lambda x: x / (1 + np.exp(-1.702 * x)),
    "swish": lambda x: x / (1 + np.exp(-x)),
}


def feed_forward(w, x, activation="relu"):
    """Equation 2, with other activations in place of max(0, x)."""
    hidden = ACTIVATIONS[activation](x @ w["inner/kernel"] + w["inner/bias"])
    return hidden @ w["outer/kernel"] + w["outer/bias"]


def norm(w, x, epsilon=1e-6):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * w["gamma"] + w["beta"]


def sublayer(w, name, x, function, pre_norm):
    """Section 3.1: LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x))."""
    w = part(w, f"{name}_residual/norm")
    if pre_norm:
        return x + function(norm(w, x))
    return norm(w, x + function(x))


def encoder_layer(w, x, mask, heads, d_k, d_v, pre_norm=False):
    def self_attention(y):
        return multi_head_attention(
            part(w, "self_attention"), y, None, mask, heads, d_k, d_v
        )

    x = sublayer(w, "self_attention", x, self_attention, pre_norm)
    return sublayer(
        w,
        "feed_forward",
        x,
        lambda y: feed_forward(part(w, "feed_forward"), y),
        pre_norm,
    )


def decoder_layer(w, x, memory, self_mask, cross_mask, heads, d_k, d_v, pre_norm=False):
    def self_attention(y):
        return multi_head_attention(
            part(w, "self_attention"), y, None, self_mask, heads, d_k, d_v
        )

    def cross_attention(y):
        return multi_head_attention(
            part(w, "cross_attention"), y, memory, cross_mask, heads, d_k, d_v
        )

    x = sublayer(w, "self_attention", x, self_attention, pre_norm)
    x = sublayer(w, "cross_attention", x, cross_attention, pre_norm)
    return sublayer(
        w,
        "feed_forward",
        x,
        lambda y: feed_forward(part(w, "feed_forward"), y),
        pre_norm,
    )


def positions(length, d_model):
    """Section 3.5, computed element by element."""
    table = np.zeros((length, d_model))
    for pos in range(length):
        for i in range(0, d_model, 2):
            angle = pos / 10000 ** (i / d_model)
            table[pos, i] = np.sin(angle)
            if i + 1 < d_model:
                table[pos, i + 1] = np.cos(angle)
    return table


def transformer(w, source, target, layers, heads, d_k, d_v, pre_norm=False):
    """Figure 1, with shared embeddings: logits `[batch, target, vocabulary]`."""
    table = w["embedding/embeddings"]
    d_model = table.shape[1]

    def embed(ids):
        return table[ids] * np.sqrt(d_model) + positions(ids.shape[1], d_model)

    source_mask = (source != 0)[:, None, :]
    causal = np.tril(np.ones((target.shape[1],) * 2, bool))[None]
    x = embed(source)
    for i in range(layers):
        x = encoder_layer(
            part(w, f"encoder/layer_{i}"), x, source_mask, heads, d_k, d_v, pre_norm
        )
    if pre_norm:
        x = norm(part(w, "encoder/final_norm"), x)
    y = embed(target)
    for i in range(layers):
        y = decoder_layer(
            part(w, f"decoder/layer_{i}"),
            y,
            x,
            causal,
            source_mask,
            heads,
            d_k,
            d_v,
            pre_norm,
        )
    if pre_norm:
        y = norm(part(w, "decoder/final_norm"), y)
    return y @ table.T
