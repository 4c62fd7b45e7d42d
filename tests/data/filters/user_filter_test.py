"""Tests of filters that users write."""

import pickle
import sys

import numpy as np
import pytest

from t2t_keras.config.filter_settings import FilterSettings
from t2t_keras.data.filters import apply_filters, make_filters
from t2t_keras.errors import UserError

MODULE = """
import numpy as np

def short(source, target):
    return len(source) < 3

def numpy_bool(source, target):
    return np.bool_(True)

def divide(source, target):
    return 1 / len(target) > 0

def forgotten(source, target):
    source == target

def one_argument(source):
    return True

def batch(sources, targets):
    assert isinstance(sources, list)
    return [len(source) < 3 for source in sources]

batch.batched = True

def too_few(sources, targets):
    return [True]

too_few.batched = True

not_callable = 5
"""


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    """Writes modules into the working directory, which is not on the path."""
    (tmp_path / "my_filters.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("__import__('no_such_package')")
    (tmp_path / "raising.py").write_text("1 / 0")
    (tmp_path / "exiting.py").write_text("raise SystemExit('two\\nlines')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield
    for name in ("my_filters", "broken", "raising", "exiting"):
        sys.modules.pop(name, None)


def user_filter(function, names=()):
    return make_filters(names, FilterSettings(), "en", "de", user_filter=function)


@pytest.mark.parametrize("function", ["short", "batch"])
def test_function_decides_about_pairs(function):
    filters = user_filter(f"my_filters:{function}", ["empty"])
    filters = pickle.loads(pickle.dumps(filters))
    keep, report = apply_filters(filters, ["ab", "abc", "", "c"], ["x"] * 4)
    assert keep.tolist() == [True, False, False, True]
    assert report.removed == {"empty": 1, "user": 1}


def test_numpy_bools_are_accepted():
    (created,) = user_filter("my_filters:numpy_bool")
    np.testing.assert_array_equal(created.keep(["a"], ["b"]), [True])
    assert created.keep([], []).shape == (0,)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("my_filters", "must have the form module:function. Received: 'my_filters'"),
        (":f", "must have the form module:function"),
        ("no_such_module:f", "cannot import no_such_module: ModuleNotFoundError"),
        ("no.such.module:f", "cannot import no.such.module: ModuleNotFoundError"),
        ("broken:f", "cannot import broken: .*'no_such_package'"),
        ("raising:f", "cannot import raising: ZeroDivisionError: division by zero"),
        ("exiting:f", "cannot import exiting: SystemExit: two lines"),
        ("my_filters:absent", "my_filters has no function absent"),
        ("my_filters:not_callable", "my_filters has no function not_callable"),
        ("..x:f", "cannot import ..x"),
    ],
)
def test_missing_function_is_a_user_error(function, message):
    with pytest.raises(UserError, match=f"^--user_filter.*{message}") as caught:
        user_filter(function)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "divide",
            r"raised ZeroDivisionError: division by zero in .*my_filters\.py:11 for",
        ),
        ("forgotten", "must return True or False. It returned None for 'ab', ''$"),
        ("one_argument", "raised TypeError: .*one_argument.* for 'ab', ''$"),
        ("too_few", r"must return a bool for each pair. It returned \[True\] for 2"),
    ],
)
def test_failure_of_the_function_names_it_and_the_pair(function, message):
    (created,) = user_filter(f"my_filters:{function}")
    with pytest.raises(
        UserError, match=f"--user_filter=my_filters:{function} {message}"
    ):
        created.keep(["ab", "ab"], ["", ""])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
