"""Filters that users write."""

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from t2t_keras.data.filters.text_filter import TextFilter
from t2t_keras.data.filters.texts import Texts
from t2t_keras.errors import UserError

_SHOWN = 80


class UserFilter(TextFilter):
    """Calls a user's function `function(source, target) -> bool` for each pair.

    A function with an attribute `batched = True` is called with lists instead and
    returns a sequence of bools. The module is found as by `import`, or in the working
    directory. Functions must be deterministic and decide about each pair on its own.

    Args:
        function: The function as `module:function`.

    Raises:
        UserError: If there is no such function, or its module cannot be imported; later
            if it raises an exception or returns anything else than bools.
    """

    name = "user"
    per_pair = True

    def __init__(self, function: str) -> None:
        self.function = function
        self._loaded: Callable[..., Any] | None = _load(function)

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.function, self._loaded = state["function"], None

    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        self._loaded = self._loaded or _load(self.function)
        if getattr(self._loaded, "batched", False):
            return self._keep_batch(self._loaded, sources, targets)
        keep = np.ones(len(sources), bool)
        for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
            keep[index] = self._keep_pair(self._loaded, source, target)
        return keep

    def _keep_pair(
        self, function: Callable[..., Any], source: str, target: str
    ) -> bool:
        pair = f"for {_short(source)}, {_short(target)}"
        try:
            result = function(source, target)
        except Exception as error:
            raise self._failure(error, pair) from error
        if not isinstance(result, bool | np.bool_):
            raise UserError(
                f"--user_filter={self.function} must return True or False. It returned "
                f"{_short(result)} {pair}"
            )
        return bool(result)

    def _keep_batch(
        self, function: Callable[..., Any], sources: Texts, targets: Texts
    ) -> np.ndarray:
        pairs = f"for {len(sources)} pairs that start with {_short(sources[0])}"
        try:
            result = function(list(sources), list(targets))
        except Exception as error:
            raise self._failure(error, pairs) from error
        keep = np.asarray(result)
        if keep.shape != (len(sources),) or keep.dtype != bool:
            raise UserError(
                f"--user_filter={self.function} must return a bool for each pair. It "
                f"returned {_short(result)} {pairs}"
            )
        return keep

    def _failure(self, error: Exception, where: str) -> UserError:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return UserError(
            f"--user_filter={self.function} raised {_described(error)} in "
            f"{frame.filename}:{frame.lineno} {where}"
        )


def _described(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _load(function: str) -> Callable[..., Any]:
    module_name, colon, name = function.partition(":")
    if not (module_name and colon and name):
        raise UserError(
            f"--user_filter must have the form module:function. Received: {function!r}"
        )
    if os.getcwd() not in sys.path:
        # Console scripts do not search the working directory.
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise UserError(
            f"--user_filter={function}: cannot import {module_name}: "
            f"{_described(error)}"
        ) from error
    loaded = getattr(module, name, None)
    if not callable(loaded):
        raise UserError(
            f"--user_filter={function}: {module_name} has no function {name}"
        )
    return loaded
