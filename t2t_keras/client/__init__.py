"""Clients of a model server; they require the extra `client`."""

from t2t_keras.extras import require_extra

require_extra("client", "t2t_keras.client")
