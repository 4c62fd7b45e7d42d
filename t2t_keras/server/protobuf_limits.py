"""Protocol buffers before they are parsed: how many fields there are."""

import functools

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_DEEPEST = 100
"""Messages in messages that the parser itself accepts."""

_VARINT, _FIXED64, _LENGTH, _START_GROUP, _END_GROUP, _FIXED32 = range(6)


def count_fields(content: bytes, message: Descriptor, most: int) -> int:
    """Counts the fields of a message and of all messages inside it.

    A field of two bytes, such as an empty string, takes up to 90 when it is parsed.

    Args:
        content: The message as it was sent.
        message: Its type.
        most: Where to stop counting.

    Returns:
        The number, `most + 1` if there are more. It means nothing if the content is
        malformed; the parser says so then.
    """
    number, start, end = 0, 0, len(content)
    inside = _messages_in(message)
    outer: list[tuple[int, dict[int, Descriptor]]] = []
    try:
        while number <= most:
            if start >= end:
                if not outer:
                    break
                end, inside = outer.pop()
                continue
            number += 1
            tag, start = read_varint(content, start)
            kind = tag & 7
            if kind == _LENGTH:
                length, start = read_varint(content, start)
                entered = inside.get(tag >> 3)
                if entered is None:
                    start += length
                elif len(outer) == _DEEPEST:
                    break
                else:
                    outer.append((end, inside))
                    end, inside = min(start + length, end), _messages_in(entered)
            elif kind == _VARINT:
                _, start = read_varint(content, start)
            elif kind == _FIXED32:
                start += 4
            elif kind == _FIXED64:
                start += 8
            elif kind not in (_START_GROUP, _END_GROUP):
                break
    except IndexError:
        pass  # Malformed: see above.
    return number


def read_varint(content: bytes, start: int) -> tuple[int, int]:
    """Reads a number of seven bits a byte, the lowest first.

    Args:
        content: What holds it.
        start: Where it begins.

    Returns:
        The number, and where it ends.

    Raises:
        IndexError: If it does not end within ten bytes, or within the content.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = content[start]
        start += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, start
    raise IndexError(f"no number ends within ten bytes before {start}")


@functools.cache
def _messages_in(message: Descriptor) -> dict[int, Descriptor]:
    return {
        field.number: field.message_type
        for field in message.fields
        if field.type == FieldDescriptor.TYPE_MESSAGE
    }
