"""Token ids as TFRecord files of `tf.train.Example`, written without TensorFlow."""

import functools
import struct
from collections.abc import Sequence
from typing import BinaryIO

import google_crc32c

HEADER_BYTES = 12
"""Length of a record and its checksum, before the record."""

FOOTER_BYTES = 4
"""Checksum of the record, after it."""

_SOURCE_KEY, _TARGET_KEY = b"\x0a\x06source\x12", b"\x0a\x06target\x12"
_MASK_DELTA = 0xA282EAD8


@functools.lru_cache(1 << 16)
def _length(number: int) -> bytes:
    """Returns a length as a varint."""
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def _field(tag: bytes, content: bytes) -> bytes:
    """Returns a field of bytes of a protocol buffer."""
    return tag + _length(len(content)) + content


def serialize_example(source: bytes, target: bytes) -> bytes:
    """Returns a `tf.train.Example` with the features "source" and "target".

    Args:
        source: Source ids as consecutive varints.
        target: Target ids as consecutive varints.

    Returns:
        The same bytes as deterministic serialization of the message.
    """
    entries = b""
    for key, ids in ((_SOURCE_KEY, source), (_TARGET_KEY, target)):
        # Example.features (1) > Features.feature (1) > Feature.int64_list (3) >
        # Int64List.value (1), packed.
        int64_list = _field(b"\x0a", ids) if ids else b""
        entry = _field(key, _field(b"\x1a", int64_list))
        entries += _field(b"\x0a", entry)
    return _field(b"\x0a", entries)


def masked_checksum(content: bytes) -> bytes:
    """Returns the checksum of the TFRecord format: a masked CRC-32C, little-endian."""
    checksum = google_crc32c.value(content)
    rotated = (checksum >> 15 | checksum << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + _MASK_DELTA) & 0xFFFFFFFF)


@functools.lru_cache(1 << 16)
def _header(size: int) -> bytes:
    length = struct.pack("<Q", size)
    return length + masked_checksum(length)


def write_records(file: BinaryIO, records: Sequence[bytes]) -> None:
    """Appends records to a TFRecord file.

    Args:
        file: File to write to.
        records: The records.
    """
    framed: list[bytes] = []
    for record in records:
        framed += _header(len(record)), record, masked_checksum(record)
    file.write(b"".join(framed))
