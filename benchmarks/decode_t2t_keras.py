"""Decoding with t2t_keras: the search of t2t-translate with its --decode_precision."""

from concurrent.futures import ThreadPoolExecutor

import common

from t2t_keras import runtime

runtime.configure("decoding")

import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.decoding.beam_search import search
from t2t_keras.decoding.beam_search_state import Hypotheses
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.layers.linear import frozen_weights

sizes = common.decoding_sizes(__doc__)
runtime.set_threads(intra_op=sizes.threads)

with frozen_weights(runtime.assumes_frozen_weights()):
    model = Transformer(
        source_vocab_size=sizes.vocab_size,
        **common.model_arguments(sizes),
        dtype=sizes.precision,
    )
ensemble = Ensemble([model])
options = SearchOptions(
    beam_size=sizes.beam_size,
    min_length=sizes.output_length,
    max_extra_length=sizes.output_length,
    max_output_tokens=sizes.output_length,
)
ids = tf.constant(
    common.random_ids(sizes.sentences, sizes.length, sizes.vocab_size), tf.int32
)


@tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
def decode_batch(source: tf.Tensor) -> Hypotheses:
    """Runs beam search on a batch."""
    return search(ensemble, source, options)


def best_hypotheses(source: tf.Tensor) -> list[list[int]]:
    """Returns the best hypothesis of each row."""
    return decode_batch(source).ids[:, 0].numpy().tolist()


def decode() -> list[list[int]]:
    """Translates in batches, `--streams` of them concurrently."""
    starts = range(0, sizes.sentences, sizes.batch)
    batches = [ids[start : start + sizes.batch] for start in starts]
    with ThreadPoolExecutor(sizes.streams) as pool:
        found = [best for batch in pool.map(best_hypotheses, batches) for best in batch]
    return [[i for i in row if i] for row in found]


common.report_decoding(decode, sizes, version=tf.__version__)
