"""Training: losses, optimizer, training loop and checkpoints."""

from t2t_keras.keras_backend import require_tensorflow

require_tensorflow()
