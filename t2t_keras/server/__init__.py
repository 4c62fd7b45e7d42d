"""A local model server; it requires the extra `server`."""

from t2t_keras.optional_packages import require_extra

require_extra("server", "t2t_keras.server")
