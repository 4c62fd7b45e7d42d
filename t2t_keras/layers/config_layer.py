"""Mixin for layers that are configured by a `TransformerConfig`."""

from typing import Any

from t2t_keras.config.transformer_config import TransformerConfig


class Configured:
    """Mixin for Keras layers and models whose arguments are a `TransformerConfig`.

    Args:
        config: The configuration. Default: the paper's base model.
        **kwargs: Fields that override those of `config`, and arguments of the Keras
            class, such as `name` and `dtype`.

    Attributes:
        config: The configuration with the overrides applied.

    Raises:
        UserError: If a value is not allowed.
    """

    def __init__(self, config: TransformerConfig | None = None, **kwargs: Any) -> None:
        names = TransformerConfig.field_names()
        fields = {name: kwargs.pop(name) for name in names if name in kwargs}
        super().__init__(**kwargs)
        self.config = (config or TransformerConfig()).replace(**fields)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with each configuration field."""
        return {**super().get_config(), **self.config.to_dict()}  # type: ignore[misc]
