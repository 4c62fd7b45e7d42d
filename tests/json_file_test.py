"""Tests of reading JSON files and reporting damaged ones."""

import sys

import pytest

from t2t_keras.errors import UserError
from t2t_keras.json_file import read_object


def test_read_object_returns_the_content_of_the_file(tmp_path):
    (tmp_path / "a").write_text('{"x": [1, "\u00e9"]}', encoding="utf-8")
    assert read_object(tmp_path / "a", ["x"]) == {"x": [1, "\u00e9"]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[1]", "it holds no JSON object"),
        (b"3", "it holds no JSON object"),
        (b'{"x": 1}', "it lacks 'y'"),
        (b"", "Expecting value"),
        (b'{"x": 1, "y": {"z": 1, "a": 2, "z": 1}}', "the key 'z' occurs twice"),
        (b"\xff\xfe\xfd", "codec can't decode"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_damaged_file_raises_an_error_with_reason_and_advice(content, reason, tmp_path):
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UserError) as raised:
        read_object(tmp_path / "a", ["x", "y"], "Write it again.")
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'a'} is damaged: ")
    assert reason in message
    assert message.endswith(". Write it again.")


@pytest.mark.parametrize("name", ["missing", "a" * 300, "."])
def test_unreadable_file_raises_an_error_with_its_name(name, tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_object(tmp_path / name)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
