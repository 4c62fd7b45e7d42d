"""Command-line flags generated from the fields of configurations."""

from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from typing import Any

from absl import flags

from t2t_keras.config.config_base import Config, field_type
from t2t_keras.config.presets import PRESETS
from t2t_keras.errors import UserError

FLAGS = flags.FLAGS
_SHOWN = ("tiny", "base", "big")
"""Presets whose values `--help` shows."""


def define(config: type[Config], names: Iterable[str], module_name: str) -> None:
    """Defines a flag for each field, with its name, type, limits and help.

    The value of a flag that is not given is None; the preset's value is used.

    Args:
        config: Configuration class.
        names: Names of the fields.
        module_name: Module under which `--helpfull` lists the flags.
    """
    for name, field in _fields(config, names):
        text = f"{field.metadata['help']} {_default(name, field.metadata)}"
        _define(config, field, None, text, module_name)


def define_with_defaults(
    config: type[Config], names: Iterable[str], module_name: str
) -> None:
    """Defines flags like `define`, but with the defaults of the fields.

    Args:
        config: Configuration class that presets do not contain.
        names: Names of the fields.
        module_name: Module under which `--helpfull` lists the flags.
    """
    for _, field in _fields(config, names):
        _define(config, field, field.default, field.metadata["help"], module_name)


def _fields(config: type[Config], names: Iterable[str]) -> list[tuple[str, Field[Any]]]:
    by_name = {field.name: field for field in fields(config)}  # type: ignore[arg-type]
    return [(name, by_name[name]) for name in names]


def _define(
    config: type[Config],
    field: Field[Any],
    default: Any,
    text: str,
    module_name: str,
) -> None:
    meta = field.metadata
    limits = {"lower_bound": meta["minimum"], "upper_bound": meta["maximum"]}
    common: dict[str, Any] = {"name": field.name, "default": default, "help": text}
    common["module_name"] = module_name
    kind, _ = field_type(config, field.name)
    if meta["choices"]:
        flags.DEFINE_enum(enum_values=meta["choices"], **common)
    elif kind is bool:
        flags.DEFINE_bool(**common)
    elif kind is int:
        flags.DEFINE_integer(**limits, **common)
    elif kind is float:
        flags.DEFINE_float(**limits, **common)
    elif kind is tuple:
        flags.DEFINE_list(**common)
    else:
        flags.DEFINE_string(**common)


def _default(name: str, meta: Mapping[str, Any]) -> str:
    def shown(preset: str) -> str:
        value = PRESETS[preset].values()[name]
        if value is None:
            return meta["unset"]
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return f"{value:,}" if is_number else str(value)

    if len({shown(preset) for preset in PRESETS}) == 1:
        return f"Default: {shown('base')}."
    if len({shown(preset) for preset in _SHOWN}) == 1:
        return f"Default: {shown('base')} in most presets."
    known = ", ".join(f"{preset}: {shown(preset)}" for preset in _SHOWN)
    return f"Default: that of --preset ({known})."


def given(config: type[Config]) -> dict[str, Any]:
    """Returns the values of the flags that are given, by field name.

    Raises:
        UserError: If a value in a list is not an integer.
    """
    values = {}
    for name in config.field_names():
        if name not in FLAGS or (value := FLAGS[name].value) is None:
            continue
        if isinstance(value, list):
            if not value:
                continue
            value = _integers(name, value)
        values[name] = value
    return values


def _integers(name: str, values: list[str]) -> tuple[int, ...]:
    if not all(value.isdecimal() for value in values):
        raise UserError(
            f"--{name} must be integers, such as 10,12. Received: {','.join(values)}"
        )
    return tuple(int(value) for value in values)
