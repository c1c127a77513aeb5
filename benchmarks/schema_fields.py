"""SchemaFields: every scalar, vtable slot and string of a TFLite file.

The walk follows the generated accessors (package `tflite`), so that it reaches every table of the
schema without a list. Buffers above a size are weights and are skipped.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import tflite
from flatbuffers import number_types

from benchmarks.file_fields import SMALL_BUFFER_BYTES, Field

MOST_ELEMENTS = 64
_OFFSET = re.compile(r"_tab\.Offset\((\d+)\)")
_SCALAR = re.compile(r"number_types\.(\w+Flags), o \+ self\._tab\.Pos\)")
_ELEMENT = re.compile(r"number_types\.(\w+Flags), a \+")
_TABLE = re.compile(r"obj = (\w+)\(")
_FORMATS = {
    "BoolFlags": "<B", "Int8Flags": "<b", "Uint8Flags": "<B", "Int16Flags": "<h",
    "Uint16Flags": "<H", "Int32Flags": "<i", "Uint32Flags": "<I", "Int64Flags": "<q",
    "Uint64Flags": "<Q", "Float32Flags": "<f", "Float64Flags": "<d",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Slot:
    """A field of a table: its vtable slot, and its format (scalars) or class (tables)."""

    name: str
    offset: int
    format: str = ""
    table: str = ""
    vector: bool = False
    string: bool = False


@cache
def _slots(table: str) -> tuple[_Slot, ...]:
    """The fields of a table, from the sources of its accessors."""
    found: dict[int, _Slot] = {}
    for name, accessor in vars(getattr(tflite, table)).items():
        if not inspect.isfunction(accessor) or not (source := inspect.getsource(accessor)):
            continue
        offset = _OFFSET.search(source)
        if offset is None or name.endswith(("Length", "AsNumpy", "IsNone")):
            continue
        place = int(offset[1])
        if (scalar := _SCALAR.search(source)) is not None:
            found[place] = _Slot(name, place, _FORMATS[scalar[1]])
        elif (element := _ELEMENT.search(source)) is not None:
            found[place] = _Slot(name, place, _FORMATS[element[1]], vector=True)
        elif "_tab.String(" in source:
            found[place] = _Slot(name, place, string=True)
        elif (inner := _TABLE.search(source)) is not None:
            vector = "_tab.Vector(" in source
            found[place] = _Slot(name, place, table=inner[1], vector=vector)
    return tuple(found.values())


def schema_fields(raw: bytes) -> tuple[Field, ...]:
    """Every field of a valid file, labelled "Table.Field"."""
    root: Any = tflite.Model
    return tuple(_walk(root.GetRootAs(bytearray(raw), 0), "Model"))


def _walk(node: Any, kind: str) -> Iterator[Field]:
    tab = node._tab
    vtable = tab.Pos - tab.Get(number_types.Int32Flags, tab.Pos)
    for slot in _slots(kind):
        offset = tab.Offset(slot.offset)
        if offset == 0:
            continue
        label = f"{kind}.{slot.name}"
        yield Field(f"{label} slot", vtable + slot.offset, "<H")
        if slot.vector:
            yield from _vector(node, slot, label, tab.Vector(offset), tab.VectorLen(offset))
        elif slot.format:
            yield Field(label, tab.Pos + offset, slot.format)
        elif slot.string:
            start = tab.Pos + offset
            start += tab.Get(number_types.Uint32Flags, start)
            yield Field(f"{label} length", start, "<I")
            yield Field(f"{label} text", start + 4, "<B")
        else:
            yield from _inner(node, slot)


def _vector(node: Any, slot: _Slot, label: str, start: int, count: int) -> Iterator[Field]:
    yield Field(f"{label} length", start - 4, "<I")
    if slot.table:
        for k in range(count):
            yield from _walk(getattr(node, slot.name)(k), slot.table)
        return
    size = Field(label, start, slot.format).size
    if label == "Buffer.Data":
        if count <= SMALL_BUFFER_BYTES:
            yield from (Field(label, start + at, "<i") for at in range(0, count - 3, 4))
        return
    yield from (
        Field(label, start + size * k, slot.format) for k in range(min(count, MOST_ELEMENTS))
    )


def _inner(node: Any, slot: _Slot) -> Iterator[Field]:
    """A table, or the options table in a union."""
    inner = getattr(node, slot.name)()
    if slot.table != "Table":
        yield from _walk(inner, slot.table)
        return
    code = getattr(node, f"{slot.name}Type")()
    names = {"Details": "QuantizationDetails"}
    members = vars(getattr(tflite, names.get(slot.name, slot.name)))
    kind = next((name for name, value in members.items() if value == code), "NONE")
    if kind != "NONE":
        options = getattr(tflite, kind)()
        options.Init(inner.Bytes, inner.Pos)
        yield from _walk(options, kind)
