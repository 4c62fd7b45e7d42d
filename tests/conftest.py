"""Settings of every test."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# tests/reference.py is imported by its bare name.
sys.path.insert(0, str(Path(__file__).parent))
