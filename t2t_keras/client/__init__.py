"""Clients of a model server; they require the extra `client`."""

from t2t_keras.optional_packages import require_extra

require_extra("client", "t2t_keras.client")
