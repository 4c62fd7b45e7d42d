"""Decoding with a SavedModel exported by OpenNMT-tf."""

import os
import subprocess
import sys
import tempfile

import common
import opennmt
import opennmt_tf_model
import tensorflow as tf

sizes = common.decoding_sizes(__doc__)

EXPORT_TO = "EXPORT_TO"
if EXPORT_TO in os.environ:
    model = opennmt_tf_model.make(
        sizes,
        beam_width=sizes.beam_size,
        length_penalty=0.6,
        minimum_decoding_length=sizes.output_length,
        maximum_decoding_length=sizes.output_length,
    )
    model.create_variables()
    model.export(os.environ[EXPORT_TO])
    raise SystemExit
directory = tempfile.mkdtemp()
# Export in a child process, to keep its memory out of the measurement.
environment = {**os.environ, EXPORT_TO: directory}
subprocess.run(
    [sys.executable, *sys.argv], env=environment, check=True, stdout=subprocess.DEVNULL
)
exported = tf.saved_model.load(directory)
translate = exported.signatures["serving_default"]
# Word n has the id n + 3.
words = [
    [f"w{max(i - 3, 0)}" for i in row]
    for row in common.random_ids(sizes.sentences, sizes.length, sizes.vocab_size)
]


def decode() -> list[list[int]]:
    """Translates batch by batch."""
    outputs = []
    for start in range(0, sizes.sentences, sizes.batch):
        rows = words[start : start + sizes.batch]
        found = translate(
            tokens=tf.constant(rows), length=tf.fill([len(rows)], sizes.length)
        )
        lengths = found["length"][:, 0].numpy()
        tokens = found["tokens"][:, 0].numpy()
        outputs += [list(t[:n]) for t, n in zip(tokens, lengths, strict=True)]
    return outputs


common.report_decoding(
    decode, sizes, version=f"{opennmt.__version__}, tensorflow {tf.__version__}"
)
