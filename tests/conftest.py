"""Settings for all tests."""

import ctypes
import gc
import inspect
import mmap
import sys
from pathlib import Path

import pytest

from t2t_keras import runtime

# Parameters of mallopt in the GNU C library, see its malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8

# Growth of the resident memory, in bytes, after which garbage is collected before the
# next test. One export leaves up to 200 MB, and a module has many.
_GROWTH = 100 << 20
_resident_after_collection = 0

# Tests import modules of this folder, such as reference.py, by their bare names.
sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure():
    """Configures TensorFlow as stages do, with two logical devices for replicas."""
    _return_freed_memory()
    runtime.configure()
    import tensorflow as tf

    # Logical devices cannot be added after TensorFlow's first operation.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    tf.get_logger().setLevel("ERROR")


def pytest_collection_finish():
    """Exempts what imports created from garbage collection, which is then fast."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def free_memory_of_earlier_modules():
    """Frees the models of earlier modules, whose fixtures are torn down."""
    _free_memory()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Frees memory between the tests of a module too, if it has grown."""
    if _resident() > _resident_after_collection + _GROWTH:
        _free_memory()


def _return_freed_memory():
    """Makes the C library return large blocks to the system when they are freed.

    By default, it raises the size of such blocks to that of the largest one freed so
    far, and keeps the free memory of each thread's arena.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if sys.platform == "linux" and mallopt:
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, 128 << 10)
        mallopt(_TRIM_THRESHOLD, 128 << 10)


def _free_memory():
    """Frees models and graphs, which would add up to gigabytes in a worker.

    Python's own collections are too rare for that: a graph is a few thousand small
    objects of Python, but megabytes of TensorFlow.
    """
    global _resident_after_collection
    from tensorflow.python.framework import ops

    registered = ops.gradient_registry._registry
    for name in [name for name in registered if name.startswith("CustomGradient-")]:
        if _is_of_all_reduce(registered[name]["type"]):
            del registered[name]
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    _resident_after_collection = _resident()


def _resident():
    """Returns the resident memory of this process in bytes, or 0 if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return 0
    return pages * mmap.PAGESIZE


def _is_of_all_reduce(gradient):
    """Tells the gradients that each `fit` of Keras registers from all others.

    TensorFlow never removes them, and they hold the graphs of the model.
    """
    found = inspect.getclosurevars(gradient).nonlocals.get("tape_grad_fn")
    if found is None:
        return False
    function = inspect.getclosurevars(found).nonlocals["grad_fn"]
    return function.__module__ == "tensorflow.python.distribute.distribute_lib"
