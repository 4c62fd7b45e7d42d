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


def multi_head(q, k, v, heads, causal=False):
    """Attends in heads that are slices of projected rows, and joins the heads.

    Args:
        q: Queries `[queries, d_model]`.
        k: Keys `[keys, d_model]`.
        v: Values `[keys, d_model]`.
        heads: Number of heads.
        causal: Whether a row sees no later rows.

    Returns:
        A matrix `[queries, d_model]`.
    """
    split = (np.stack(np.split(x, heads, axis=-1)) for x in (q, k, v))
    mask = np.tri(len(q), len(k), dtype=bool) if causal else None
    return np.concatenate(attention(*split, mask)[0], axis=-1)


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


def ssru(w, x):
    """The recurrence of Kim et al. (2019), step by step."""
    forget = 1 / (1 + np.exp(-(x @ w["forget_gate/kernel"] + w["forget_gate/bias"])))
    state, outputs = 0, []
    for t in range(x.shape[1]):
        candidate = x[:, t] @ w["candidate/kernel"]
        state = forget[:, t] * state + (1 - forget[:, t]) * candidate
        outputs.append(np.maximum(0, state))
    return np.stack(outputs, axis=1)


def decoder_layer(w, x, memory, self_mask, cross_mask, heads, d_k, d_v, pre_norm=False):
    def self_attention(y):
        return multi_head_attention(
            part(w, "self_attention"), y, None, self_mask, heads, d_k, d_v
        )

    def cross_attention(y):
        return multi_head_attention(
            part(w, "cross_attention"), y, memory, cross_mask, heads, d_k, d_v
        )

    if "ssru/candidate/kernel" in w:
        x = sublayer(w, "ssru", x, lambda y: ssru(part(w, "ssru"), y), pre_norm)
    else:
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


def search(log_probabilities, source, beams, alpha, beta, extra, n_best):
    """Beam search for one hypothesis at a time, without a cache.

    `log_probabilities(source, tokens)` scores all tokens that may follow.
    """
    source = source[source > 0][None]
    limit = source.shape[1] + extra
    alive, done = [([1], 0.0)], []
    for step in range(limit):
        candidates = []
        for tokens, score in alive:
            log_p = log_probabilities(source, tokens)
            candidates += [([*tokens, i], score + log_p[i]) for i in range(len(log_p))]
        candidates.sort(key=lambda c: -c[1])
        candidates = candidates[: 2 * beams]
        penalty = ((beta + step + 1) / (beta + 1)) ** alpha
        done += [(t, s / penalty) for t, s in candidates[:beams] if t[-1] == 2]
        done = sorted(done, key=lambda c: -c[1])[:beams]
        alive = [c for c in candidates if c[0][-1] != 2][:beams]
        if beams == 1 and done:
            break
        best_possible = alive[0][1] / ((beta + limit) / (beta + 1)) ** alpha
        if len(done) >= n_best and best_possible <= done[n_best - 1][1]:
            break
    if not done:
        penalty = ((beta + limit) / (beta + 1)) ** alpha
        done = [(t, s / penalty) for t, s in alive]
    return [([t for t in tokens[1:] if t != 2], score) for tokens, score in done]
