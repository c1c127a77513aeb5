"""The pieces of a tile copy each of its elements once, wherever the rows of the tensor are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.backends.kernel_call import Operand
from penstock.backends.scratchpad_tile import ScratchpadTile, TilePiece
from penstock.ir.tensor import DType, TensorType
from penstock.program.expr import Expr, Var, evaluate
from penstock.program.program import Address, Command, Driver, Invoke, Loop, Rows, View
from penstock.tiling.layer import Dimension, LayerOperand

COPY = Driver("copy", "npu", lambda device, piece: None, dict)
LOWER, UPPER = Var("lower"), Var("upper")
Pair = tuple[int, int]
"""Where an element is: the offset of a byte in memory, and in the scratchpad."""


@st.composite
def tiles(draw: st.DrawFn, rank: int) -> tuple[ScratchpadTile, dict[str, int]]:
    """A tile of a tensor, one axis of which has expressions as bounds; and their values."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank)))
    region: list[tuple[int, int]] = []
    for extent in shape:
        lower = draw(st.integers(0, extent - 1))
        region.append((lower, draw(st.integers(lower, extent))))
    symbolic = draw(st.integers(0, len(shape) - 1))
    variables = {LOWER.name: region[symbolic][0], UPPER.name: region[symbolic][1]}
    spans: list[tuple[Expr, Expr]] = list(region)
    if draw(st.booleans()):
        spans[symbolic] = (LOWER, UPPER)
    element_bytes = draw(st.sampled_from((1, 4)))
    room = [b - a + draw(st.integers(0, 1)) for a, b in region]
    pitches = [element_bytes * prod(room[k + 1 :]) for k in range(len(shape))]
    operand = LayerOperand("x", "input", tuple(map(Dimension, shape)), element_bytes)
    base = draw(st.integers(0, 3))
    whole = tuple(spans)
    tile = ScratchpadTile(operand, base, tuple(room), tuple(pitches), whole, whole, (), 0)
    return tile, variables


@st.composite
def operands(draw: st.DrawFn, operand: LayerOperand, layout: str) -> Operand:
    """The tensor of a tile in memory: contiguous, in a ring, row by row, or with wide rows."""
    dtype = DType.INT8 if operand.element_bytes == 1 else DType.INT32
    view = View.whole("x", TensorType(operand.shape, dtype), "arena")
    ring, size = view.rows.ring, view.row_bytes
    if layout == "ring":
        view = replace(view, rows=Rows(size, draw(st.integers(1, ring))))
    if layout == "table":
        slots = draw(st.permutations(range(ring)))
        view = replace(view, rows=Rows(size, 0, tuple(slot * (size + 1) for slot in slots)))
    if layout == "columns":
        view = replace(view, rows=Rows(size + draw(st.integers(1, 9)), ring))
    return Operand(replace(view, offset=draw(st.integers(0, 9))))


def copied(commands: tuple[Command, ...], variables: dict[str, int]) -> Iterator[Pair]:
    """Every byte that commands copy."""
    for command in commands:
        if isinstance(command, Loop):
            bounds = evaluate(command.lower, variables), evaluate(command.upper, variables)
            for value in range(*bounds, command.step):
                yield from copied(command.body, {**variables, command.variable: value})
            continue
        assert isinstance(command, Invoke)
        piece = command.given
        assert isinstance(piece, TilePiece)
        first = evaluate(piece.address.offset, variables), evaluate(piece.local, variables)
        runs, size = evaluate(piece.runs, variables), evaluate(piece.run_bytes, variables)
        for run, byte in product(range(runs), range(size)):
            yield first[0] + run * piece.pitch + byte, first[1] + run * piece.local_pitch + byte


def expected(
    tile: ScratchpadTile, memory: Operand | None, variables: dict[str, int]
) -> Iterator[Pair]:
    """Every byte of a tile, element by element, from the definition of rows and pitches."""
    shape, size = tile.operand.shape, tile.operand.element_bytes
    spans = [[evaluate(bound, variables) for bound in span] for span in tile.region]
    per_row = prod(shape[-2:] if len(shape) > 2 else shape[-1:])
    for index in product(*(range(*span) for span in spans)):
        number = 0
        for k, extent in zip(index, shape, strict=True):
            number = number * extent + k
        inside = number % per_row * size
        if memory is None:
            place = number * size
        else:
            rows = memory.view.rows
            place = evaluate(memory.view.offset, {}) + rows.offset(number // per_row) + inside
        pairs = zip(index, spans, tile.pitches, strict=True)
        local = evaluate(tile.base, {}) + sum((k - first) * p for k, (first, _), p in pairs)
        yield from ((place + byte, local + byte) for byte in range(size))


def commands(tile: ScratchpadTile, memory: Operand | Address) -> tuple[Command, ...]:
    return tile.copies(memory, lambda piece: Invoke(COPY, piece))


@pytest.mark.parametrize("layout", ["whole", "ring", "table", "columns"])
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@given(data=st.data())
def test_each_byte_of_a_tensor_is_copied_once(rank: int, layout: str, data: st.DataObject) -> None:
    tile, variables = data.draw(tiles(rank))
    tensor = data.draw(operands(tile.operand, layout))
    found = sorted(copied(commands(tile, tensor), variables))
    assert found == sorted(expected(tile, tensor, variables))


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@given(data=st.data())
def test_each_byte_of_an_array_is_copied_once(rank: int, data: st.DataObject) -> None:
    tile, variables = data.draw(tiles(rank))
    found = sorted(copied(commands(tile, Address("table")), variables))
    assert found == sorted(expected(tile, None, variables))


def whole(shape: tuple[int, ...], channels: int) -> ScratchpadTile:
    """A tile of all rows and columns of a tensor, in a scratchpad with room for `channels`."""
    operand = LayerOperand("x", "input", tuple(map(Dimension, shape)))
    region = tuple((0, n) for n in shape)
    room = (*shape[:-1], channels)
    pitches = tuple(prod(room[k + 1 :]) for k in range(len(room)))
    return ScratchpadTile(operand, 0, room, pitches, region, region, (0,) * len(shape), 0)


def test_a_contiguous_tile_is_one_run() -> None:
    (command,) = commands(whole((1, 6, 4, 8), 8), Address("table"))
    assert isinstance(command, Invoke)
    assert command.given == TilePiece(0, Address("table"), 1, 192, 0, 0)


def test_aligned_channels_are_one_run_for_each_pixel() -> None:
    (command,) = commands(whole((1, 6, 4, 6), 8), Address("table"))
    assert isinstance(command, Invoke)
    assert command.given == TilePiece(0, Address("table"), 24, 6, 6, 8)


def test_rows_of_a_ring_are_copied_one_by_one() -> None:
    view = View.whole("x", TensorType((1, 6, 4, 8), DType.INT8), "arena")
    (loop,) = commands(whole((1, 6, 4, 8), 8), Operand(replace(view, rows=Rows(32, 4))))
    assert isinstance(loop, Loop)
    assert (loop.lower, loop.upper, len(loop.body)) == (0, 6, 1)


def test_scattered_rows_of_another_shape_are_refused() -> None:
    view = View.whole("x", TensorType((1, 2, 24, 4), DType.INT8), "arena")
    with pytest.raises(ValueError, match="not contiguous"):
        commands(whole((1, 6, 4, 8), 8), Operand(replace(view, rows=Rows(96, 1))))
