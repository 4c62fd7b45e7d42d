"""Settings of every test."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# tests/reference.py is imported by its bare name.
sys.path.insert(0, str(Path(__file__).parent))

import tensorflow as tf

# Replicas are logical devices, which have to be there from the start.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
tf.get_logger().setLevel("ERROR")
