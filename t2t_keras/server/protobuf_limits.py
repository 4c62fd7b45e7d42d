"""Counts the fields of protocol buffers before they are parsed."""

import functools

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_MAX_DEPTH = 100
"""Maximum depth of nested messages that the parser accepts."""

_VARINT, _FIXED64, _LENGTH, _START_GROUP, _END_GROUP, _FIXED32 = range(6)


def count_fields(content: bytes, message: Descriptor, maximum: int) -> int:
    """Counts the fields of a message and of all nested messages.

    A field of two bytes, such as an empty string, takes up to 90 bytes once parsed.

    Args:
        content: Serialized message.
        message: Type of the message.
        maximum: Count at which to stop.

    Returns:
        Number of fields, at most `maximum + 1`. It is meaningless if the content is
        malformed, which the parser reports.
    """
    number, start, end = 0, 0, len(content)
    inside = _messages_in(message)
    outer: list[tuple[int, dict[int, Descriptor]]] = []
    try:
        while number <= maximum:
            if start >= end:
                if not outer:
                    break
                end, inside = outer.pop()
                continue
            number += 1
            tag, start = read_varint(content, start)
            wire_type = tag & 7
            if wire_type == _LENGTH:
                length, start = read_varint(content, start)
                entered = inside.get(tag >> 3)
                if entered is None:
                    start += length
                elif len(outer) == _MAX_DEPTH:
                    break
                else:
                    outer.append((end, inside))
                    end, inside = min(start + length, end), _messages_in(entered)
            elif wire_type == _VARINT:
                _, start = read_varint(content, start)
            elif wire_type == _FIXED32:
                start += 4
            elif wire_type == _FIXED64:
                start += 8
            elif wire_type not in (_START_GROUP, _END_GROUP):
                break
    except IndexError:
        pass  # Malformed: see above.
    return number


def read_varint(content: bytes, start: int) -> tuple[int, int]:
    """Reads a varint: seven bits per byte, lowest first.

    Args:
        content: Bytes that contain the varint.
        start: Offset of the varint.

    Returns:
        The number and the offset after it.

    Raises:
        IndexError: If it does not end within ten bytes or within the content.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = content[start]
        start += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, start
    raise IndexError(f"no varint ends within ten bytes before {start}")


@functools.cache
def _messages_in(message: Descriptor) -> dict[int, Descriptor]:
    return {
        field.number: field.message_type
        for field in message.fields
        if field.type == FieldDescriptor.TYPE_MESSAGE
    }
