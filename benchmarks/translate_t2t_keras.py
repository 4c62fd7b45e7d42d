"""`t2t-translate` on 1,000 sentences, from its start to its end."""

import resource
import subprocess
import tempfile
import time
from pathlib import Path

import common
import multi30k
import tensorflow as tf

sizes = common.sizes(__doc__).parse_args()

with tempfile.TemporaryDirectory() as directory:
    output = Path(directory, "output")
    command = multi30k.command(
        "translate",
        f"--model_dir={multi30k.MODEL}",
        f"--input={multi30k.TEST}",
        f"--output={output}",
        f"--decode_precision={sizes.precision}",
        *multi30k.SEARCH,
    )
    started = time.time()
    subprocess.run(command, check=True)
    seconds = time.time() - started
    lines = len(output.read_text().splitlines())
common.report(
    rate=lines / seconds,
    seconds=seconds,
    version=tf.__version__,
    peak_memory_mb=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
)
