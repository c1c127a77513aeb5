"""Adds conversions at the border of TFLite files: float32 or uint8 inputs and outputs.

`with_border` inserts QUANTIZE after every int8 input, and DEQUANTIZE (QUANTIZE for uint8) before
every int8 output.
New tables are inserted before all others, because offsets in a FlatBuffer point forward only.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import tflite

HEADER_BYTES, ALIGNMENT_BYTES = 8, 16
MODEL_FIELDS = {"description": 10, "buffers": 12}
"""Offsets of kept fields in the vtable of Model."""


@dataclass(frozen=True, slots=True)
class Old:
    """An address in the file before the insertion."""

    address: int


@dataclass(frozen=True, slots=True)
class New:
    """An address in the inserted block."""

    address: int


Target = Old | New


@dataclass
class Block:
    """The inserted bytes, and the offsets in them that remain to be written."""

    raw: bytearray = field(default_factory=bytearray)
    links: list[tuple[int, Target]] = field(default_factory=list[tuple[int, Target]])

    def add(self, content: bytes, alignment: int = 4) -> New:
        """The address of appended bytes, aligned in the file."""
        self.raw += bytes(-(len(self.raw) + HEADER_BYTES) % alignment)
        self.raw += content
        return New(len(self.raw) - len(content))

    def table(self, scalars: Mapping[int, bytes], links: Sequence[int]) -> tuple[New, list[int]]:
        """A table with scalars by slot, and the places of offsets for other slots."""
        slots = max((*scalars, *links)) + 1
        body, offsets = bytearray(4), [0] * slots
        for slot, value in (*scalars.items(), *((slot, bytes(4)) for slot in links)):
            body += bytes(-len(body) % len(value))
            offsets[slot] = len(body)
            body += value
        vtable = self.add(struct.pack(f"<HH{slots}H", 4 + 2 * slots, len(body), *offsets))
        table = self.add(bytes(body))
        struct.pack_into("<i", self.raw, table.address, table.address - vtable.address)
        return table, [table.address + offsets[slot] for slot in links]

    def numbers(self, code: str, values: Sequence[float]) -> New:
        """A vector of numbers; its length precedes them."""
        size = struct.calcsize(f"<{code}")
        self.raw += bytes(-(len(self.raw) + HEADER_BYTES + 4) % max(size, 4))
        return self.add(struct.pack(f"<I{len(values)}{code}", len(values), *values), 1)

    def references(self, targets: Sequence[Target | None]) -> tuple[New, list[int]]:
        """A vector of offsets, and their places; a target of None is linked later."""
        vector = self.add(struct.pack(f"<I{len(targets)}I", len(targets), *[0] * len(targets)))
        places = [vector.address + 4 + 4 * k for k in range(len(targets))]
        self.links += [(p, t) for p, t in zip(places, targets, strict=True) if t is not None]
        return vector, places

    def link(self, place: int, target: Target) -> None:
        self.links.append((place, target))

    def inserted(self, raw: bytes, root: New) -> bytes:
        """The file with this block after its header."""
        self.raw += bytes(-len(self.raw) % ALIGNMENT_BYTES)
        shift = len(self.raw)
        for place, target in self.links:
            end = target.address + (HEADER_BYTES if isinstance(target, New) else shift)
            assert end > place + HEADER_BYTES, "offsets point forward"
            struct.pack_into("<I", self.raw, place, end - place - HEADER_BYTES)
        start = struct.pack("<I", root.address + HEADER_BYTES)
        return start + raw[4:HEADER_BYTES] + bytes(self.raw) + raw[HEADER_BYTES:]


def with_border(raw: bytes, kind: Literal["float32", "uint8"]) -> bytes:
    """The model with float32 or uint8 inputs and outputs where they were int8."""
    root: Any = tflite.Model
    model = root.GetRootAs(bytearray(raw), 0)
    graph = model.Subgraphs(0)
    inputs = [int(i) for i in graph.InputsAsNumpy()]
    outputs = [int(i) for i in graph.OutputsAsNumpy()]
    converted = {i for i in (*inputs, *outputs) if _is_int8(graph, i)}
    first = graph.TensorsLength()
    outside = {(side, i): first + k for k, (side, i) in enumerate(
        (side, i) for side, ids in (("in", inputs), ("out", outputs)) for i in ids if i in converted
    )}  # fmt: skip
    block = Block()
    model_table, (codes_at, graphs_at, text_at, buffers_at) = block.table(
        {0: struct.pack("<I", 3)}, (1, 2, 3, 4)
    )
    for place, slot in ((text_at, "description"), (buffers_at, "buffers")):
        at = model._tab.Offset(MODEL_FIELDS[slot]) + model._tab.Pos
        block.link(place, Old(model._tab.Indirect(at)))
    graphs, (graph_at,) = block.references([None])
    block.link(graphs_at, graphs)
    graph_table, (tensors_at, inputs_at, outputs_at, operators_at) = block.table({}, (0, 1, 2, 3))
    block.link(graph_at, graph_table)

    last = "DEQUANTIZE" if kind == "float32" else "QUANTIZE"
    codes = [Old(model.OperatorCodes(k)._tab.Pos) for k in range(model.OperatorCodesLength())]
    code_vector, code_places = block.references([*codes, None, None])
    block.link(codes_at, code_vector)
    for place, name in zip(code_places[-2:], ("QUANTIZE", last), strict=True):
        code = getattr(tflite.BuiltinOperator, name)
        scalars = {0: struct.pack("<b", code), 2: struct.pack("<i", 2), 3: struct.pack("<i", code)}
        block.link(place, block.table(scalars, ())[0])

    tensors = [Old(graph.Tensors(k)._tab.Pos) for k in range(first)]
    tensor_vector, places = block.references([*tensors, *(None for _ in outside)])
    block.link(tensors_at, tensor_vector)
    for place, (_, i) in zip(places[first:], outside, strict=True):
        _add_tensor(block, place, graph.Tensors(i), kind)
    block.link(inputs_at, block.numbers("i", [outside.get(("in", i), i) for i in inputs]))
    block.link(outputs_at, block.numbers("i", [outside.get(("out", i), i) for i in outputs]))

    operators = [Old(graph.Operators(k)._tab.Pos) for k in range(graph.OperatorsLength())]
    before = [(len(codes), new, i) for (side, i), new in outside.items() if side == "in"]
    after = [(len(codes) + 1, i, new) for (side, i), new in outside.items() if side == "out"]
    vector, places = block.references([*(None for _ in before), *operators, *(None for _ in after)])
    block.link(operators_at, vector)
    free = [*places[: len(before)], *places[len(places) - len(after) :]]
    for place, (code, source, target) in zip(free, (*before, *after), strict=True):
        table, (source_at, target_at) = block.table({0: struct.pack("<I", code)}, (1, 2))
        block.link(place, table)
        block.link(source_at, block.numbers("i", [source]))
        block.link(target_at, block.numbers("i", [target]))
    return block.inserted(raw, model_table)


def _is_int8(graph: Any, index: int) -> bool:
    return graph.Tensors(index).Type() == tflite.TensorType.INT8


def _add_tensor(block: Block, place: int, inside: Any, kind: str) -> None:
    """Adds the tensor outside that corresponds to an int8 tensor inside."""
    type = tflite.TensorType.FLOAT32 if kind == "float32" else tflite.TensorType.UINT8
    scalars = {1: struct.pack("<b", type), 2: struct.pack("<I", 0)}
    table, (shape_at, name_at, *quantised_at) = block.table(
        scalars, (0, 3) if kind == "float32" else (0, 3, 4)
    )
    block.link(place, table)
    block.link(shape_at, block.numbers("i", [int(n) for n in inside.ShapeAsNumpy()]))
    name = (inside.Name() or b"") + b"/" + kind.encode()
    block.link(name_at, block.add(struct.pack("<I", len(name)) + name + b"\0"))
    for at in quantised_at:
        q = inside.Quantization()
        quantisation, (scale_at, zero_at) = block.table({}, (2, 3))
        block.link(at, quantisation)
        block.link(scale_at, block.numbers("f", [float(q.Scale(0))]))
        block.link(zero_at, block.numbers("q", [int(q.ZeroPoint(0)) + 128]))
