"""The memory that parsing an ONNX file takes, computed before it is parsed.

Two bytes of a protobuf may stand for an object of a hundred.  Source: Protocol Buffers
documentation, "Encoding".
"""

from __future__ import annotations

from typing import Any

import onnx

from penstock.allowance import ENTRY_BYTES, NODE_BYTES, take

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_WIDEST_ELEMENT = 8
"""Bytes in memory of an element of a packed list, which takes at least one byte in the file."""
_AT_ONCE = 2**20
_NODE: Any = onnx.NodeProto.DESCRIPTOR
_TENSOR: Any = onnx.TensorProto.DESCRIPTOR
_TEXTS = tuple(_TENSOR.fields_by_name[name].type for name in ("name", "raw_data"))
"""Types of fields whose content takes as many bytes in memory as in the file."""


def take_messages(raw: bytes, model: str) -> None:
    """Take the memory of the fields of a model's messages from the allowance of the context.

    Damaged messages end early: parsing them fails.  Raises SizeLimitError."""
    pending = 0
    rest: list[tuple[Any, int, int]] = [(onnx.ModelProto.DESCRIPTOR, 0, len(raw))]
    while rest:
        message, at, end = rest.pop()
        pending += NODE_BYTES if message is _NODE else ENTRY_BYTES
        while at < end:
            key, at = _varint(raw, at, end)
            size, kind = 0, key & 7
            if kind == _VARINT:
                _, at = _varint(raw, at, end)
            elif kind == _DELIMITED:
                size, at = _varint(raw, at, end)
            else:
                at += {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
            field = message.fields_by_number.get(key >> 3) if at + size <= end else None
            if field is not None and field.message_type is not None:
                rest.append((field.message_type, at, at + size))
            elif field is not None and size and field.type not in _TEXTS:
                pending += size * _WIDEST_ELEMENT
            pending += ENTRY_BYTES
            at += size
            if pending >= _AT_ONCE:
                take(pending, "its nodes and lists", model)
                pending = 0
    take(pending, "its nodes and lists", model)


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """A number and the position after it; the end of the message for a damaged one."""
    value = shift = 0
    while at < end and shift < 64:
        byte = raw[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    return 0, end
