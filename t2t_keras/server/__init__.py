"""A local model server; it requires the extra `server`."""

from t2t_keras.extras import require_extra

require_extra("server", "t2t_keras.server")
