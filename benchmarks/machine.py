"""The machine's rate of matrix multiplication, an upper limit for all programs."""

import statistics
import time

import common
import tensorflow as tf

sizes = common.sizes(__doc__).parse_args()

N = 2048
a = tf.cast(tf.random.stateless_normal([N, N], [0, 1]), sizes.precision)


@tf.function
def multiply(x: tf.Tensor) -> tf.Tensor:
    """Multiplies and returns one number, so that copying the result takes no time."""
    return tf.matmul(x, x)[0, 0]


seconds = []
for _ in range(12):
    started = time.perf_counter()
    multiply(a).numpy()
    seconds.append(time.perf_counter() - started)
common.report(rate=2 * N**3 / statistics.median(seconds[2:]), version=tf.__version__)
