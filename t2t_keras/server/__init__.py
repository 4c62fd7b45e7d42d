"""A local model server; its packages come with the extra `server`."""

from t2t_keras.extras import require_extra

require_extra("server", "t2t_keras.server")
