"""Base class of all configurations: fields with types, ranges and help texts."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Self

from t2t_keras.errors import UserError


def option(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
    unset: str | None = None,
    may_change: bool = False,
) -> Any:
    """Returns a configuration field with the metadata of its command-line flag.

    Args:
        default: The default value.
        help: Description for `--help`: full sentences, with the unit.
        minimum: Minimum value. Default: no limit.
        maximum: Maximum value. Default: no limit.
        choices: Allowed values. Default: any.
        unset: Meaning of None, for fields that allow it.
        may_change: Whether training can be resumed with another value. Default False:
            the value affects the result.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "help": help,
            "minimum": minimum,
            "maximum": maximum,
            "choices": choices,
            "unset": unset,
            "may_change": may_change,
        },
    )


def field_type(config: type, name: str) -> tuple[type, bool]:
    """Returns the type of a field's values, and whether they may be None."""
    hint = typing.get_type_hints(config)[name]
    if isinstance(hint, types.UnionType):
        (kind,) = (part for part in typing.get_args(hint) if part is not type(None))
        return typing.get_origin(kind) or kind, True
    return typing.get_origin(hint) or hint, False


class Config:
    """Base of the configurations, which are frozen dataclasses.

    Raises:
        UserError: If a value has the wrong type or is out of range.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if field.metadata:
                _check(type(self), field, getattr(self, field.name))

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Returns the names of the fields in order of definition."""
        return tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]

    @classmethod
    def flag_names(cls) -> tuple[str, ...]:
        """Returns the names of the fields that are command-line flags."""
        return tuple(f.name for f in dataclasses.fields(cls) if f.metadata)  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Builds a configuration, such as one read from JSON.

        Args:
            values: Values by field name. Missing fields take their defaults.

        Raises:
            UserError: If a field is unknown or a value is not allowed.
        """
        unknown = [name for name in values if name not in cls.field_names()]
        if unknown:
            raise UserError(
                f"{cls.__name__} has no field {', '.join(map(repr, unknown))}. It was "
                "written by a newer version of t2t-keras, or misspelled. Known fields: "
                f"{', '.join(cls.field_names())}"
            )
        lists = {n: tuple(v) for n, v in values.items() if isinstance(v, list)}
        return cls(**{**values, **lists})

    def to_dict(self) -> dict[str, Any]:
        """Returns all values by field name, serializable as JSON."""
        return {name: getattr(self, name) for name in self.field_names()}

    def replace(self, **values: Any) -> Self:
        """Returns a copy with other values.

        Raises:
            UserError: If a field is unknown or a value is not allowed.
        """
        return self.from_dict({**self.to_dict(), **values})


def _check(config: type, field: dataclasses.Field[Any], value: Any) -> None:
    kind, optional = field_type(config, field.name)
    if value is None and optional:
        return
    meta = field.metadata
    expected = {int: "an integer", float: "a number", bool: "True or False"}.get(
        kind, "text" if kind is str else f"a {kind.__name__}"
    )
    # bool is a subclass of int, and integers are accepted as floats.
    is_number = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )
    fits = {
        int: is_number and isinstance(value, int),
        float: is_number,
    }.get(kind, isinstance(value, kind))
    lowest, highest, choices = meta["minimum"], meta["maximum"], meta["choices"]
    if fits and choices is not None:
        fits, expected = value in choices, f"one of {', '.join(choices)}"
    elif lowest is not None or highest is not None:
        fits = (
            fits
            and (lowest is None or value >= lowest)
            and (highest is None or value <= highest)
        )
        if highest is None:
            expected += f" of at least {lowest}"
        else:
            expected += f" from {lowest} to {highest}"
    if not fits:
        raise UserError(
            f"{field.name} must be {expected}"
            f"{' or None' if optional else ''}. Received: {value!r}"
        )
