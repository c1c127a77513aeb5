"""Rewrites TFLite files: replaces tensor names and the encoding of operator codes.

New tables and strings are appended and the offsets to them patched; other bytes do not change.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import tflite
from flatbuffers import number_types

NAME_SLOT, CODES_SLOT = 10, 6
"""Offsets of `name` and `operator_codes` in the vtables of Tensor and Model."""


def _model(raw: bytes | bytearray) -> Any:
    root: Any = tflite.Model
    return root.GetRootAs(bytearray(raw), 0)


def tensor_names(raw: bytes) -> list[str]:
    """Names of the tensors of the main subgraph."""
    graph = _model(raw).Subgraphs(0)
    texts = (graph.Tensors(i).Name() or b"" for i in range(graph.TensorsLength()))
    return [text.decode("utf-8", "replace") for text in texts]


def renamed(raw: bytes, names: Sequence[str]) -> bytes:
    """The file with new tensor names in the main subgraph; unnamed tensors stay unnamed."""
    found = bytearray(raw)
    graph = _model(raw).Subgraphs(0)
    for i, name in enumerate(names):
        table = graph.Tensors(i)._tab
        if not table.Offset(NAME_SLOT):
            continue
        text = name.encode()
        string = struct.pack("<I", len(text)) + text + b"\0"
        _point(found, table.Pos + table.Offset(NAME_SLOT), string)
    return bytes(found)


def with_codes(raw: bytes, codes: Sequence[int], *, builtin: bool, deprecated: bool) -> bytes:
    """The file with other operator codes, in `builtin_code`, `deprecated_builtin_code` or both.

    The deprecated field is an int8; the placeholder 127 represents codes above 127."""
    found = bytearray(raw)
    model = _model(raw)
    vector = model._tab.Vector(model._tab.Offset(CODES_SLOT))
    for i, code in enumerate(codes):
        custom = model.OperatorCodes(i).CustomCode()
        assert custom is None, "custom operators are not rewritten"
        values: dict[int, bytes] = {}
        if deprecated:
            values[0] = struct.pack("<b", min(code, 127))
        if builtin:
            values[3] = struct.pack("<i", code)
        _point(found, vector + 4 * i, *_table(values))
    return bytes(found)


def codes_of(raw: bytes) -> list[int]:
    """The operator codes of a file."""
    model = _model(raw)
    tables = [model.OperatorCodes(i)._tab for i in range(model.OperatorCodesLength())]
    return [
        max(
            tab.GetSlot(4, 0, number_types.Int8Flags),
            tab.GetSlot(10, 0, number_types.Int32Flags),
        )
        for tab in tables
    ]


def _table(values: Mapping[int, bytes]) -> tuple[bytes, int]:
    """The bytes of a vtable followed by its table of scalars, and the offset of the table."""
    slots, body = 4, struct.pack("<i", 0)
    offsets = [0] * slots
    for slot, value in values.items():
        body += bytes(-len(body) % len(value))
        offsets[slot] = len(body)
        body += value
    vtable = struct.pack(f"<HH{slots}H", 4 + 2 * slots, len(body), *offsets)
    vtable += bytes(-len(vtable) % 8)
    body = struct.pack("<i", len(vtable)) + body[4:]
    return vtable + body, len(vtable)


def _point(raw: bytearray, place: int, target: bytes, inside: int = 0) -> None:
    """Appends bytes and patches the offset at `place` to point `inside` bytes into them."""
    raw += bytes(-len(raw) % 8)
    struct.pack_into("<I", raw, place, len(raw) + inside - place)
    raw += target
