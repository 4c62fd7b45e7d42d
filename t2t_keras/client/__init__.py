"""Clients of a model server; their packages come with the extra `client`."""

from t2t_keras.extras import require_extra

require_extra("client", "t2t_keras.client")
