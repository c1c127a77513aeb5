"""ScratchpadTile: a tile of a tensor in a scratchpad, and the commands that copy it.

A tile is dense in its scratchpad, but rarely in memory: the rows of a stripe are in a ring buffer
or placed one by one, and a tile of some columns or channels covers a part of each row.  `copies`
divides it into pieces that a DMA engine can copy: runs of contiguous bytes at equal distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from penstock.backends.kernel_call import Operand
from penstock.program.expr import Expr, Var
from penstock.program.program import Address, Command, Loop
from penstock.tiling.layer import Dimension, LayerOperand

Span = tuple[Expr, Expr]  # A half-open interval whose bounds are expressions.

Number = TypeVar("Number")
Memory = TypeVar("Memory")


def is_flat(operand: LayerOperand) -> bool:
    """Whether an operand has shape (1, n), as in a flattened layer, which loops over elements."""
    return len(operand.dimensions) == 2 and operand.dimensions[0] == Dimension(1)


@dataclass(frozen=True)
class TilePiece(Generic[Number, Memory]):
    """A part of a tile that one command copies: `runs` runs of `run_bytes` contiguous bytes.

    A backend may pass its fields as the arguments of a driver function
    (`KernelCall.invoke_record`).  The functional model of the function then receives a `TilePiece`
    with numbers, in which `address` is an array: the bytes in memory from this address on.

    local: offset in bytes of the first run in the scratchpad.
    address: the address of the first run in memory.
    pitch, local_pitch: the distance in bytes between runs, in memory and in the scratchpad; 0 if
        there is a single run."""

    local: Number
    address: Memory
    runs: Number
    run_bytes: Number
    pitch: int
    local_pitch: int


# Returns the command that copies a piece of a tile.
CopyCommand = Callable[[TilePiece[Expr, Address]], Command]


@dataclass(frozen=True)
class ScratchpadTile:
    """The current tile of a tensor, inside the loops over tiles, and its location in a scratchpad.

    operand: the tensor.
    base: offset in bytes of the tile in the scratchpad.  With double buffering, it alternates
        between two values, so that one tile can be copied while the other is used.
    room: number of elements along each dimension for which the scratchpad has space.
    pitches: distance in bytes between consecutive elements of the tile along each dimension.
    region: part of the tensor that the tile holds, a half-open interval of indices per dimension.
    box: part of `region` that the current computation reads or writes, without padding.  If several
        computations use the same tile, each may use another box of it.
    padding: number of padding elements before `box` that the computation reads, per dimension.
    level: number of loops around the commands that load or store the tile; 0 if the whole call uses
        one tile.

    In a flattened layer, a tensor is a single row of elements: it has shape (1, elements)."""

    operand: LayerOperand
    base: Expr
    room: tuple[int, ...]
    pitches: tuple[int, ...]
    region: tuple[Span, ...]
    box: tuple[Span, ...]
    padding: tuple[Expr, ...]
    level: int

    @property
    def flat(self) -> bool:
        """Whether the tile belongs to a flattened layer, whose tensors are single rows."""
        return is_flat(self.operand)

    @property
    def start(self) -> Expr:
        """The offset in bytes, in the scratchpad, of the first element of `box`, the part of the
        tensor that the computation of the current tile reads or writes."""
        return self.at(*(lower for lower, _ in self.box))

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The number of elements, along each dimension, of `box`, the part of the tensor that the
        computation of the current tile reads or writes."""
        return tuple(upper - lower for lower, upper in self.box)

    def at(self, *corner: Expr) -> Expr:
        """Return the offset in bytes, in the scratchpad, of one element of the tile.

        corner: indices of the element in the whole tensor, one per dimension.  For example, if the
            tile begins at element (4, 0) and its pitches are (64, 1), element (6, 3) has the offset
            base + 2 * 64 + 3."""
        found: Expr = self.base
        for index, (lower, _), pitch in zip(corner, self.region, self.pitches, strict=True):
            found = found + (index - lower) * pitch
        return found

    def copies(self, memory: Operand | Address, command: CopyCommand) -> tuple[Command, ...]:
        """Return the commands that copy the tile between its scratchpad and memory.

        memory: the tensor in memory, or the address of an array that stores it contiguously, such
            as a table of the kernel.
        command: returns the command that loads or stores a piece of the tile (`TilePiece`).

        If the rows of the tensor are contiguous in memory, one command may copy several rows.
        Otherwise, each row is copied on its own; `memory` must then have the shape of the tile's
        tensor (`operand`), or more rows of a single image, else the method raises ValueError."""
        rank = len(self.operand.shape)
        if isinstance(memory, Operand):
            outer = rank - (2 if rank >= 3 else 1)
            if not memory.contiguous and self._has_rows_of(memory.type.shape, outer):
                return self._rows(memory, outer, command)
            memory = memory.address
        return self._pieces(memory, self.base, range(rank), command)

    def _has_rows_of(self, shape: tuple[int, ...], outer: int) -> bool:
        """Whether row r of a tensor in memory is row r of the tile's tensor.

        The tensor in memory may have rows that the layer does not read, if it is a single image.

        outer: the number of axes that number the rows."""
        own = self.operand.shape
        is_image = set(shape[: outer - 1]) | set(own[: outer - 1]) <= {1}
        return shape == own or (is_image and shape[outer:] == own[outer:])

    def _rows(self, memory: Operand, outer: int, command: CopyCommand) -> tuple[Command, ...]:
        names = ("image", "row")[-outer:] if outer <= 2 else [f"row{k}" for k in range(outer)]
        number: Expr = 0
        local: Expr = self.base
        loops: list[Loop] = []
        for axis, name in enumerate(names[:outer]):
            lower, upper = self.region[axis]
            index: Expr = lower
            if upper - lower != 1:
                loops.append(Loop(name, lower, upper, 1, ()))
                index = Var(name)
            number = number * self.operand.shape[axis] + index
            local = local + (index - lower) * self.pitches[axis]
        inner = range(outer, len(self.operand.shape))
        body = self._pieces(memory.row(number), local, inner, command)
        for loop in reversed(loops):
            body = (replace(loop, body=body),)
        return body

    def _pieces(
        self,
        address: Address,
        local: Expr,
        axes: range,
        command: CopyCommand,
    ) -> tuple[Command, ...]:
        """Return the commands that copy the whole tile, or one of its rows.

        address: the address in memory at which the tensor begins or, to copy a row of the tile,
            that row of the tensor.
        local: the offset in bytes, in the scratchpad, of the first element to copy.
        axes: all axes of the tensor, to copy the whole tile; the axes of a row, to copy one row.
        command: returns a command that copies equally spaced runs of bytes (`TilePiece`)."""
        strides = self._strides(axes)
        start = address.offset
        for axis, stride in zip(axes, strides, strict=True):
            start = start + self.region[axis][0] * stride
        (run_bytes, *_), *rest = self._runs(axes, strides)
        (runs, pitch, local_pitch), *outer = rest or [(1, 0, 0)]
        loops: list[Loop] = []
        for k, (count, stride, local_stride) in enumerate(outer):
            name = f"part{k}"
            loops.append(Loop(name, 0, count, 1, ()))
            start = start + Var(name) * stride
            local = local + Var(name) * local_stride
        place = Address(address.buffer, start)
        piece = TilePiece(local, place, runs, run_bytes, pitch, local_pitch)
        body: tuple[Command, ...] = (command(piece),)
        for loop in loops:
            body = (replace(loop, body=body),)
        return body

    def _strides(self, axes: range) -> list[int]:
        """For each of `axes`, the distance in bytes between consecutive elements in memory."""
        strides = [self.operand.element_bytes]
        for axis in reversed(axes[1:]):
            strides.insert(0, strides[0] * self.operand.shape[axis])
        return strides

    def _runs(self, axes: range, strides: list[int]) -> list[tuple[Expr, int, int]]:
        """Return the bytes of the tile along `axes` as nested repetitions, innermost first.

        A repetition is (count, stride in memory, stride in the scratchpad), with strides in bytes.
        The first one has strides of 1: its count is the number of contiguous bytes.  An axis is
        merged into the previous repetition if it continues this repetition at the same strides.
        For example, an int8 tile has 3 rows, 4 of 10 pixels in each row, and all 8 channels.
        A row of the tile has 32 contiguous bytes; the result is [(32, 1, 1), (3, 80, 32)].

        strides: the distance in bytes between elements in memory, for each of `axes`."""
        found: list[tuple[Expr, int, int]] = [(self.operand.element_bytes, 1, 1)]
        for axis, stride in zip(reversed(axes), reversed(strides), strict=True):
            lower, upper = self.region[axis]
            repeated, inner, local = found[-1]
            count, pitch = upper - lower, self.pitches[axis]
            if count == 1:
                continue
            adjacent = isinstance(repeated, int) and stride == repeated * inner
            if adjacent and pitch == repeated * local:
                found[-1] = (count * repeated, inner, local)
            else:
                found.append((count, stride, pitch))
        return found
