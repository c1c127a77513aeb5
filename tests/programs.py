"""Handwritten programs: cascades over rings and row tables, and a copy engine.

They show that the program representation supports more than the scheduler produces. A cascade
computes its last layer row by row. Before each row, an inner loop computes the rows of the previous
layer that this row needs and that are not yet in memory (demand-driven); its bounds are expressions
of the outer variable.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.small_tensors import bias, int8, weights
from penstock.ir.graph import Graph, Node, Value
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D
from penstock.program.expr import Expr, Var, binary
from penstock.program.program import (
    Buffer,
    Call,
    Kind,
    Loop,
    Memory,
    Program,
    Pull,
    Rows,
    View,
)
from strategies import node_of

WIDTH = 5
FAR_BYTES, NEAR_BYTES, ROM_BYTES = 4096, 4096, 4096
MEMORIES = (
    Memory("far", FAR_BYTES, writable=True),
    Memory("near", NEAR_BYTES, writable=True),
    Memory("rom", ROM_BYTES, writable=False),
)
SAME = Window(3, 1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class Example:
    """A program, and the graph that it computes."""

    name: str
    graph: Graph
    program: Program


def conv(name: str, x: Value, rows: Window, outputs: int) -> Node:
    """A convolution of `rows` taps along rows and three taps along columns."""
    op = Conv2D(rows, SAME)
    w = weights(outputs, rows.size, 3, x.type.shape[3], axis=0)
    return node_of(name, op, (x,), w, bias(outputs))


def row_bytes(value: Value) -> int:
    return value.type.shape[2] * value.type.shape[3]


def upper(window: Window, row: Expr, extent: int) -> Expr:
    """End of the input rows that an output row reads (exclusive)."""
    end = binary("+", binary("*", row, window.stride), window.extent - window.before)
    return binary("min", end, extent)


def lower(window: Window, row: Expr) -> Expr:
    """The first input row that an output row reads."""
    return binary("max", binary("+", binary("*", row, window.stride), -window.before), 0)


def produced_before(window: Window, row: Expr, extent: int) -> Expr:
    """Number of input rows that the output rows before `row` need; 0 for row 0."""
    before = upper(window, binary("-", row, 1), extent)
    return binary("min", before, binary("*", row, extent))


def rolling(value: Value, buffer: str, rows: Rows, first: Expr, end: Expr) -> View:
    """A view of rows [first, end) of an image, in a buffer that holds some of the rows."""
    return View(value.name, value.type, buffer, rows, first, end)


def constant_buffers(*nodes: Node) -> tuple[Buffer, ...]:
    """Buffers of weights and biases at consecutive addresses."""
    found: list[Buffer] = []
    address = 0
    for value in (v for node in nodes for v in node.inputs if v.data is not None):
        size = value.type.size_bytes
        found.append(Buffer(value.name, Kind.CONSTANT, "rom", address, size, value.data))
        address += size
    return tuple(found)


def call(node: Node, source: View, target: View, first: Expr, end: Expr) -> Call:
    """A call of the node's kernel on views of its input and output."""
    constants = tuple(View.whole(v.name, v.type, v.name) for v in node.inputs[1:])
    kernel = node.op.kernel(node.site)
    return Call(node.op, node.site, kernel, "cpu", (source, *constants), target, first, end)


@dataclass(frozen=True, slots=True)
class Layout:
    """Placement of the tensors of a cascade of two convolutions.

    `middle`, `last`: placement of the rows between the layers and of the output rows;
    `last_address`: address of the output buffer.
    """

    middle: Rows
    middle_bytes: int
    last: Rows
    last_address: int


def two_convolutions(height: int, first: Window, second: Window) -> Graph:
    """x -> mid -> y."""
    x = Value("x", int8(1, height, WIDTH, 3))
    mid = conv("mid", x, first, 4)
    y = conv("y", mid.output, second, 2)
    return Graph("cascade", (x,), (y.output,), (mid, y))


def ring_layout(graph: Graph, ring: int, gap_bytes: int = 0) -> Layout:
    """Rows between the layers in a ring with gaps, followed by the whole output."""
    pitch = row_bytes(graph.nodes[0].output) + gap_bytes
    size = ring * pitch
    return Layout(Rows(pitch, ring), size, Rows.whole(graph.outputs[0].type), 1024 + size)


def table_layout(graph: Graph, slots: int, ahead: int = 0) -> Layout:
    """Rows between the layers in single slots, unordered and with gaps.

    Output row r overwrites input row r + ahead, which has no later reader if `ahead` is 0.
    """
    mid, y = (node.output for node in graph.nodes)
    pitch, height = row_bytes(mid), mid.type.shape[1]
    places = tuple((5 * (row % slots) + 2) % 7 * (pitch + 3) for row in range(height))
    x_pitch, y_height = row_bytes(graph.inputs[0]), y.type.shape[1]
    over = tuple((row + ahead) * x_pitch for row in range(y_height))
    return Layout(
        Rows(pitch, height, places), 7 * (pitch + 3), Rows(row_bytes(y), y_height, over), 0
    )


def cascade(graph: Graph, layout: Layout) -> Program:
    """The two convolutions row by row; x lies whole at the start of the near memory."""
    (x,), (first, second) = graph.inputs, graph.nodes
    mid, y = first.output, second.output
    window = second.op.rows if isinstance(second.op, Conv2D) else SAME
    height, r, m = mid.type.shape[1], Var("r"), Var("m")
    whole_y = View("y", y.type, "y", layout.last, 0, y.type.shape[1])
    after_m, after_r = binary("+", m, 1), binary("+", r, 1)
    produce = call(
        first,
        View.whole("x", x.type, "x"),
        rolling(mid, "mid", layout.middle, m, after_m),
        m,
        after_m,
    )
    source = rolling(mid, "mid", layout.middle, lower(window, r), upper(window, r, height))
    consume = call(second, source, whole_y, r, after_r)
    missing = binary("max", produced_before(window, r, height), lower(window, r))
    inner = Loop("m", missing, upper(window, r, height), 1, (produce,))
    last_bytes = max(layout.last.offset(row) for row in range(y.type.shape[1])) + row_bytes(y)
    buffers = (
        Buffer("x", Kind.IO, "near", 0, x.type.size_bytes),
        Buffer("mid", Kind.ARENA, "near", 1024, layout.middle_bytes),
        Buffer("y", Kind.IO, "near", layout.last_address, last_bytes),
        *constant_buffers(first, second),
    )
    run = (Loop("r", 0, y.type.shape[1], 1, (inner, consume)),)
    inputs = (View.whole("x", x.type, "x"),)
    return Program("cascade", MEMORIES, buffers, inputs, (whole_y,), (), run)


def one_convolution(height: int) -> Graph:
    """x -> y; each output row reads one input row."""
    x = Value("x", int8(1, height, WIDTH, 3))
    y = conv("y", x, Window(1), 2)
    return Graph("streamed", (x,), (y.output,), (y,))


def streamed(graph: Graph) -> Program:
    """A program that takes each row of x from the caller, into two slots in turn."""
    (x,), (node,) = graph.inputs, graph.nodes
    y, r = node.output, Var("r")
    end = binary("+", r, 1)
    source = rolling(x, "slots", Rows(row_bytes(x), 2), r, end)
    target = View.whole("y", y.type, "y")
    turn = (Pull(source, r, end), call(node, source, target, r, end))
    buffers = (
        Buffer("slots", Kind.ARENA, "near", 0, 2 * row_bytes(x)),
        Buffer("y", Kind.IO, "near", 1024, y.type.size_bytes),
        *constant_buffers(node),
    )
    run = (Loop("r", 0, x.type.shape[1], 1, turn),)
    return Program("streamed", MEMORIES, buffers, (), (target,), (), run)


def _examples() -> tuple[Example, ...]:
    found: list[Example] = []
    windows = (
        ("same", SAME, SAME),
        ("stride 2", SAME, Window(3, 2, 1, 1, 1)),
        ("dilation 2", SAME, Window(3, 1, 2, 2, 2)),
        ("first stride 2", Window(3, 2, 1, 0, 1), Window(2, 1, 1, 0, 0)),
        ("large stride", SAME, Window(1, 3)),
    )
    for name, first, second in windows:
        graph = two_convolutions(8, first, second)
        layout = ring_layout(graph, second.extent)
        found.append(Example(f"ring, {name}", graph, cascade(graph, layout)))
    graph = two_convolutions(7, SAME, SAME)
    padded = ring_layout(graph, ring=7, gap_bytes=3)
    found.append(Example("rows with gaps", graph, cascade(graph, padded)))
    found.append(Example("row tables", graph, cascade(graph, table_layout(graph, 3))))
    for height in (1, 2, 5, 6):
        graph = one_convolution(height)
        found.append(Example(f"pulls, {height} rows", graph, streamed(graph)))
    return tuple(found)


EXAMPLES = _examples()
