"""Tests of reading and aligning lines."""

import gzip
import sys

import pytest

from t2t_keras.data.text_lines import align_lines, is_text, read_lines, readable

CONTENT = (
    b"\xef\xbb\xbfone\r\n"  # A byte-order mark.
    b"t\xffwo \xc3\n"
    b"\n"
    b"th\x00r\ree\xe2\x80\xa8\x0b\x0c\xc2\x85\n"  # None of these ends a line.
    b"\xef\xbb\xbffour\n"
    b"f\xed\xa0\x80ive"
)
LINES = ["one", "t\ufffdwo \ufffd", "", "th\x00r\ree\u2028\x0b\x0c\x85", "\ufefffour"]
LINES.append("f\ufffd\ufffd\ufffdive")


@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_only_line_feeds_end_lines_and_invalid_utf8_is_detected(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(gzip.compress(CONTENT) if name.endswith(".gz") else CONTENT)
    found = list(read_lines(path, strict=False))
    assert [readable(line) for line in found] == LINES
    assert [is_text(line) for line in found] == [True, False, True, True, True, False]
    with pytest.raises(ValueError, match=rf"{name}:2: invalid UTF-8 at byte 2 of"):
        list(read_lines(path))


def test_align_lines_rejects_files_of_unequal_length(tmp_path):
    aligned = align_lines(iter("ab"), iter("xy"), "one", "other")
    assert list(aligned) == [("a", "x"), ("b", "y")]
    with pytest.raises(ValueError, match="other:3: this line has no counterpart: one"):
        list(align_lines(iter("ab"), iter("xyz"), "one", "other"))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
