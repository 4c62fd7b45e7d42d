"""Settings for all tests."""

import sys
from pathlib import Path

from t2t_keras import runtime

# Tests import modules of this folder, such as reference.py, by their bare names.
sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure():
    """Configures TensorFlow as stages do, with two logical devices for replicas."""
    runtime.configure()
    import tensorflow as tf

    # Logical devices cannot be added after TensorFlow's first operation.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    tf.get_logger().setLevel("ERROR")
