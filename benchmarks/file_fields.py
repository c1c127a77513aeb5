"""FileFields: positions of the numbers of a TFLite file, for mutations of single fields.

A field is a number of the flatbuffer: an extent, a tensor index, a scale, the length of a vector.
The reader does not validate the file.

Source: FlatBuffers' binary format; the slots are those of the TFLite schema, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

SMALL_BUFFER_BYTES = 64
"""Constants of at most this size are operator parameters (axes, paddings), not weights."""

MODEL = {"version": 0, "codes": 1, "graphs": 2, "buffers": 4}
CODE = {"deprecated": 0, "builtin": 3}
GRAPH = {"tensors": 0, "inputs": 1, "outputs": 2, "operators": 3}
TENSOR = {"shape": 0, "type": 1, "buffer": 2, "quantisation": 4, "variable": 5}
QUANTISATION = {"scale": 2, "zero": 3, "axis": 6}
OPERATOR = {"code": 0, "inputs": 1, "outputs": 2, "kind": 3, "options": 4}


@dataclass(frozen=True, slots=True)
class Field:
    """A number of a file: its meaning, position and `struct` format."""

    label: str
    position: int
    format: str

    def read(self, raw: bytes | bytearray) -> int | float:
        (value,) = struct.unpack_from(self.format, raw, self.position)
        return value

    @property
    def size(self) -> int:
        return struct.calcsize(self.format)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of the flatbuffer at a position."""

    raw: bytes
    position: int

    def place(self, slot: int) -> int | None:
        """Position of a field; None if the file omits it."""
        vtable = self.position - _i32(self.raw, self.position)
        inside = 4 + 2 * slot < _u16(self.raw, vtable)
        offset = _u16(self.raw, vtable + 4 + 2 * slot) if inside else 0
        return self.position + offset if offset else None

    def child(self, slot: int) -> _Table | None:
        place = self.place(slot)
        return None if place is None else _Table(self.raw, place + _u32(self.raw, place))

    def vector(self, slot: int) -> tuple[int, int]:
        """(position of the length, length) of a vector; length 0 if it is missing."""
        table = self.child(slot)
        return (table.position, _u32(self.raw, table.position)) if table else (0, 0)

    def children(self, slot: int) -> Iterator[_Table]:
        start, count = self.vector(slot)
        for k in range(count):
            place = start + 4 + 4 * k
            yield _Table(self.raw, place + _u32(self.raw, place))

    def scalar(self, slot: int, label: str, form: str) -> Iterator[Field]:
        place = self.place(slot)
        if place is not None:
            yield Field(label, place, form)

    def elements(self, slot: int, label: str, form: str) -> Iterator[Field]:
        """The length of the vector and its elements."""
        start, count = self.vector(slot)
        if start:
            yield Field("length", start, "<I")
        size = struct.calcsize(form)
        yield from (Field(label, start + 4 + size * k, form) for k in range(count))

    def options(self) -> Iterator[Field]:
        """Every scalar of an options table; its size is the distance to the next one."""
        vtable = self.position - _i32(self.raw, self.position)
        slots = (_u16(self.raw, vtable) - 4) // 2
        places = (_u16(self.raw, vtable + 4 + 2 * k) for k in range(slots))
        offsets = sorted(place for place in places if place)
        ends = (*offsets, _u16(self.raw, vtable + 2))[1:]
        for offset, end in zip(offsets, ends, strict=True):
            if end > offset:
                yield Field("option", self.position + offset, "<i" if end - offset >= 4 else "<B")


def file_fields(raw: bytes) -> tuple[Field, ...]:
    """Every field of a valid TFLite file that the compiler reads."""
    model = _Table(raw, _u32(raw, 0))
    return (
        *model.scalar(MODEL["version"], "version", "<I"),
        *(f for code in model.children(MODEL["codes"]) for f in _code(code)),
        *(f for graph in model.children(MODEL["graphs"]) for f in _graph(graph)),
        *(f for buffer in model.children(MODEL["buffers"]) for f in _buffer(buffer)),
    )


def _code(code: _Table) -> Iterator[Field]:
    yield from code.scalar(CODE["deprecated"], "deprecated", "<b")
    yield from code.scalar(CODE["builtin"], "builtin", "<i")


def _graph(graph: _Table) -> Iterator[Field]:
    yield from graph.elements(GRAPH["inputs"], "tensor", "<i")
    yield from graph.elements(GRAPH["outputs"], "tensor", "<i")
    for tensor in graph.children(GRAPH["tensors"]):
        yield from tensor.elements(TENSOR["shape"], "extent", "<i")
        yield from tensor.scalar(TENSOR["type"], "type", "<B")
        yield from tensor.scalar(TENSOR["buffer"], "buffer", "<I")
        yield from tensor.scalar(TENSOR["variable"], "variable", "<B")
        quantisation = tensor.child(TENSOR["quantisation"])
        if quantisation:
            yield from quantisation.elements(QUANTISATION["scale"], "scale", "<f")
            yield from quantisation.elements(QUANTISATION["zero"], "zero", "<q")
            yield from quantisation.scalar(QUANTISATION["axis"], "axis", "<i")
    for operator in graph.children(GRAPH["operators"]):
        yield from operator.scalar(OPERATOR["code"], "code", "<I")
        yield from operator.elements(OPERATOR["inputs"], "tensor", "<i")
        yield from operator.elements(OPERATOR["outputs"], "tensor", "<i")
        yield from operator.scalar(OPERATOR["kind"], "kind", "<B")
        options = operator.child(OPERATOR["options"])
        if options:
            yield from options.options()


def _buffer(buffer: _Table) -> Iterator[Field]:
    start, size = buffer.vector(0)
    if start:
        yield Field("length", start, "<I")
    if size <= SMALL_BUFFER_BYTES:
        yield from (Field("constant", start + 4 + at, "<i") for at in range(0, size - 3, 4))


def _u16(raw: bytes, position: int) -> int:
    return struct.unpack_from("<H", raw, position)[0]


def _u32(raw: bytes, position: int) -> int:
    return struct.unpack_from("<I", raw, position)[0]


def _i32(raw: bytes, position: int) -> int:
    return struct.unpack_from("<i", raw, position)[0]
