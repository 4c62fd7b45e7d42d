"""Settings of every test."""

import sys
from pathlib import Path

from t2t_keras import runtime

# tests/reference.py is imported by its bare name.
sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure():
    """Sets up Python and TensorFlow as stages do, with two devices for replicas."""
    runtime.configure()
    import tensorflow as tf

    # Replicas are logical devices, which have to be there from the start.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    tf.get_logger().setLevel("ERROR")
