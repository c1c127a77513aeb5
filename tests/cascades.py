"""Handwritten programs with features that `programs.py` lacks.

These are chains of three layers, bounds in tables, offsets, streamed inputs, and layers in two
memories.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.small_tensors import int8
from penstock.ir.graph import Graph, Node, Value
from penstock.opkit.requantise import Multipliers
from penstock.opkit.sliding import Window
from penstock.ops.binary import Add
from penstock.ops.convolutions import Conv2D
from penstock.ops.running import RequantiseLast, RunningSum
from penstock.program.expr import Expr, TableEntry, Var, binary, evaluate
from penstock.program.program import (
    Buffer,
    Call,
    Command,
    Kind,
    Loop,
    Program,
    Pull,
    Rows,
    View,
)
from programs import (
    EXAMPLES,
    MEMORIES,
    SAME,
    WIDTH,
    Example,
    call,
    cascade,
    constant_buffers,
    conv,
    lower,
    one_convolution,
    produced_before,
    ring_layout,
    rolling,
    row_bytes,
    two_convolutions,
    upper,
)
from strategies import node_of

STRIDED = Window(3, 2, 1, 0, 1)


def layers(height: int, *windows: Window) -> Graph:
    """x -> layer0 -> layer1 -> ..; one convolution for each window."""
    x = Value("x", int8(1, height, WIDTH, 3))
    nodes: list[Node] = []
    for k, window in enumerate(windows):
        source = nodes[-1].output if nodes else x
        nodes.append(conv(f"layer{k}", source, window, 2 + k))
    return Graph("chain", (x,), (nodes[-1].output,), tuple(nodes))


def chain(graph: Graph, memories: tuple[str, ...], *, pulled: bool = False) -> Program:
    """The layers row by row, tensor k in a ring of `memories[k]`, the last tensor whole.

    `pulled`: the input is streamed; otherwise it is an array.
    """
    values = (*graph.inputs, *(node.output for node in graph.nodes))
    whole = {values[-1].name} | (set() if pulled else {values[0].name})
    rings = [_ring(value, node, value.name in whole) for value, node in _read_by(graph)]
    buffers = tuple(
        Buffer(
            v.name, Kind.IO if v.name in whole else Kind.ARENA, memory, 512 * k, r.ring * r.pitch
        )
        for k, (v, r, memory) in enumerate(zip(values, rings, memories, strict=True))
    )

    def make(k: int, first: Expr, end: Expr) -> tuple[Command, ...]:
        """Computes rows [first, end) of tensor k."""
        if k == 0:
            target = rolling(values[0], "x", rings[0], first, end)
            return (Pull(target, first, end),) if pulled else ()
        node, x, row = graph.nodes[k - 1], values[k - 1], Var(f"row of {values[k].name}")
        window, height = window_of(node), values[k - 1].type.shape[1]
        needed = lower(window, row), upper(window, row, height)
        there = binary("max", produced_before(window, row, height), needed[0])
        if k == 1 and pulled:
            there = produced_before(window, row, height)  # rows come in order, each once
        after = binary("+", row, 1)
        compute = call(
            node,
            rolling(x, x.name, rings[k - 1], *needed),
            rolling(values[k], values[k].name, rings[k], row, after),
            row,
            after,
        )
        body = (*make(k - 1, there, needed[1]), compute)
        return (Loop(str(row.name), first, end, 1, body),)

    y = values[-1]
    return Program(
        "chain",
        MEMORIES,
        (*buffers, *constant_buffers(*graph.nodes)),
        () if pulled else (View.whole("x", values[0].type, "x"),),
        (View.whole(y.name, y.type, y.name),),
        (),
        make(len(graph.nodes), 0, y.type.shape[1]),
    )


def _read_by(graph: Graph) -> Iterator[tuple[Value, Node | None]]:
    """Every tensor of a chain with the node that reads it."""
    values = (*graph.inputs, *(node.output for node in graph.nodes))
    yield from zip(values, (*graph.nodes, None), strict=True)


def _ring(value: Value, reader: Node | None, whole: bool) -> Rows:
    """The number of rows that the reader needs at a time."""
    if whole or reader is None:
        return Rows.whole(value.type)
    return Rows(row_bytes(value), window_of(reader).extent)


def window_of(node: Node) -> Window:
    assert isinstance(node.op, Conv2D)
    return node.op.rows


def tabulated(program: Program, turns: int = 16) -> Program:
    """The same program with the bounds of its inner loops in tables of `turns` entries."""

    def entry(bound: Expr, outer: str) -> Expr:
        if isinstance(bound, int):
            return bound
        return TableEntry(tuple(evaluate(bound, {outer: k}) for k in range(turns)), Var(outer))

    def inside(commands: tuple[Command, ...], outer: str) -> Iterator[Command]:
        for command in commands:
            if isinstance(command, Loop):
                first, end = entry(command.lower, outer), entry(command.upper, outer)
                body = tuple(inside(command.body, command.variable))
                command = replace(command, lower=first, upper=end, body=body)
            yield command

    return replace(program, run=tuple(inside(program.run, "")))


def in_two_loops(graph: Graph, program: Program) -> Program:
    """The rows of the last tensor in two loops that call the same steps."""
    (whole,) = program.run
    assert isinstance(whole, Loop)
    middle = graph.outputs[0].type.shape[1] // 2
    return replace(program, run=(replace(whole, upper=middle), replace(whole, lower=middle)))


def by_offset(graph: Graph) -> Program:
    """A program that takes each row of x to a place of its own before it reads the row there."""
    (x,), (node,) = graph.inputs, graph.nodes
    y, r = node.output, Var("r")
    end = binary("+", r, 1)
    places = (0, 700, 75, 500, 30)
    place = TableEntry(tuple(places[row % 5] for row in range(x.type.shape[1])), r)
    near = replace(rolling(x, "places", Rows(row_bytes(x), 1), r, end), offset=place)
    turn = (
        Pull(near, r, end),
        call(node, near, View.whole("y", y.type, "y"), r, end),
    )
    buffers = (
        Buffer("places", Kind.ARENA, "near", 0, 700 + row_bytes(x)),
        Buffer("y", Kind.IO, "near", 1024, y.type.size_bytes),
        *constant_buffers(node),
    )
    run = (Loop("r", 0, x.type.shape[1], 1, turn),)
    return Program("streamed", MEMORIES, buffers, (), (View.whole("y", y.type, "y"),), (), run)


def sum_of_streams(height: int) -> Example:
    """The sum of two streamed inputs, row by row, each in a buffer of one row."""
    a, b = (Value(name, int8(1, height, WIDTH, 3)) for name in "ab")
    node = node_of("y", Add(), (a, b))
    y, r = node.output, Var("r")
    end = binary("+", r, 1)
    rows = [rolling(v, v.name, Rows(row_bytes(v), 1), r, end) for v in (a, b)]
    compute = Call(
        node.op,
        node.site,
        node.op.kernel(node.site),
        "cpu",
        tuple(rows),
        View.whole("y", y.type, "y"),
        r,
        end,
    )
    buffers = (
        *(Buffer(v.name, Kind.ARENA, "far", 64 * k, row_bytes(v)) for k, v in enumerate((a, b))),
        Buffer("y", Kind.IO, "near", 0, y.type.size_bytes),
    )
    run = (Loop("r", 0, height, 1, (*(Pull(view, r, end) for view in rows), compute)),)
    outputs = (View.whole("y", y.type, "y"),)
    program = Program("sum", MEMORIES, buffers, (), outputs, (), run)
    return Example("two streams", Graph("sum", (a, b), (y,), (node,)), program)


def total_of_stream(height: int) -> Example:
    """The running total of the rows of a streamed input.

    Input rows share one slot and totals another.
    """
    x = Value("x", int8(1, height, WIDTH, 3))
    sums = node_of("sums", RunningSum(height, Window(WIDTH), -3), (x,))
    total = node_of("y", RequantiseLast(Multipliers.of([0.02, 0.05, 0.1])), (sums.output,))
    r = Var("r")
    end = binary("+", r, 1)
    row = rolling(x, "x", Rows(row_bytes(x), 1), r, end)
    so_far = View.whole("sums", sums.output.type, "sums")
    so_far = replace(so_far, rows=Rows(so_far.row_bytes, 1))
    y = View.whole("y", total.output.type, "y")
    buffers = (
        Buffer("x", Kind.ARENA, "far", 0, row_bytes(x)),
        Buffer("sums", Kind.ARENA, "near", 64, so_far.row_bytes),
        Buffer("y", Kind.IO, "near", 0, y.row_bytes),
    )
    add = call(sums, row, so_far, r, end)
    finish = call(total, so_far, y, 0, 1)
    run = (Loop("r", 0, height, 1, (Pull(row, r, end), add)), finish)
    program = Program("total", MEMORIES, buffers, (), (y,), (), run)
    return Example(
        "total in one place", Graph("total", (x,), (total.output,), (sums, total)), program
    )


def _cascades() -> Iterator[Example]:
    near, both = ("near",) * 4, ("far", "near", "far", "near")
    deep = layers(11, SAME, STRIDED, SAME)
    yield Example("three deep", deep, chain(deep, near))
    yield Example("three deep, two memories", deep, chain(deep, both))
    yield Example("three deep, bounds in tables", deep, tabulated(chain(deep, near)))
    yield Example("three deep, streamed", deep, chain(deep, near, pulled=True))
    yield Example("three deep, streamed, two memories", deep, chain(deep, both, pulled=True))
    pair = two_convolutions(8, SAME, SAME)
    split = in_two_loops(pair, cascade(pair, ring_layout(pair, 3)))
    yield Example("one cascade in two loops", pair, split)
    yield sum_of_streams(5)
    yield total_of_stream(6)
    single = one_convolution(24)
    yield Example("places by offset", single, by_offset(single))


CASCADES = tuple(_cascades())
EVERY_PROGRAM = (*EXAMPLES, *CASCADES)
