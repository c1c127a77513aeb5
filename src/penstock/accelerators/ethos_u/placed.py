"""placed: what calls of one operation take where their rows lie.

What decides that is remembered: into how many rows at a time a call is cut, and, where it copies
constants to where its rows may lie, the place of everything, since a stream waits for copies that
seem to meet rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock.accelerators.ethos_u.call import (
    RESULT,
    SECOND,
    Call,
    ConstantsCopy,
    Piece,
    RowsAt,
    touched,
)
from penstock.accelerators.ethos_u.cost import cost_of
from penstock.accelerators.ethos_u.encoding import Segment
from penstock.accelerators.ethos_u.operation import Operation
from penstock.uma import Breakdown, Place, PlacedCall, PlacedRows

TABLE, CONSTANT, MEMORIES = range(3)
"""Regions: a kernel's table, a constant input, and memories by number from MEMORIES on."""
Touched = Mapping[int, tuple[PlacedRows, int, int]]
"""By tensor, of those that are no constants, rows [lower, upper) that a call touches."""


@dataclass(frozen=True, slots=True)
class PlacedCosts:
    """Costs of an operation's calls; `tensors`: by tensor of the operation, which input of its node
    that is."""

    op: Operation
    segments: tuple[Segment, ...]
    pieces: tuple[Piece, ...]
    tensors: Mapping[int, int]
    _known: dict[Hashable, Breakdown] = field(default_factory=dict[Hashable, Breakdown])
    _lengths: dict[Hashable, Hashable] = field(default_factory=dict[Hashable, Hashable])

    def of(self, call: PlacedCall) -> Breakdown:
        """What a call takes."""
        rows = {tensor: call.inputs[k] for tensor, k in self.tensors.items()}
        rows[RESULT] = call.output
        at = {
            tensor: (placed, *touched(self.op, tensor, call.first, call.end))
            for tensor, placed in rows.items()
            if placed is not None
        }
        where = call.end - call.first, self.op.position(call.first, call.end)
        steps = tuple(rows.steps[lower : upper - 1].tobytes() for rows, lower, upper in at.values())
        if (where, steps) not in self._lengths:
            made = self._call(call, at)
            self._lengths[where, steps] = made.lengths(call.first, call.end)
        key = where, self._lengths[where, steps], tuple(self._copies(call, at))
        if key not in self._known:
            actions = self._call(call, at).actions(call.first, call.end)
            self._known[key] = cost_of(self.op, actions)
        return self._known[key]

    def _copies(self, call: PlacedCall, at: Touched) -> Iterator[Hashable]:
        """What decides when copies are done: sizes, which of them the call itself needs, and the
        place of everything where rows may seem to meet them."""
        yield tuple((fill.size_bytes, fill.address == call.fetched) for fill in call.fills)
        copied = [(fill.address, fill.address + fill.size_bytes) for fill in call.fills]
        if self.op.buffered:
            assert call.scratch is not None
            copied.append((call.scratch, call.scratch + self.op.scratch_bytes))
        if copied and any(self._meets(copied, *each) for each in at.values()):
            yield call.scratch, call.fetched, call.fills
            for placed, lower, upper in at.values():
                yield placed.memory, placed.addresses[lower:upper].tobytes()

    def _meets(
        self, copied: list[tuple[int, int]], placed: PlacedRows, lower: int, upper: int
    ) -> bool:
        """Whether anything may be copied between rows [lower, upper) of a tensor."""
        op, addresses = self.op, placed.addresses[lower:upper]
        first, last = int(addresses.min()), int(addresses.max())
        last += max(op.in_row_bytes, op.second_row_bytes, op.out_row_bytes)
        return any(at < last and end > first for at, end in copied)

    def _call(self, call: PlacedCall, at: Touched) -> Call:
        beside = MEMORIES + call.beside
        places = [Place(TABLE, 0)]
        places += [Place(beside, call.scratch)] if call.scratch is not None else []
        places += [Place(beside, call.fetched)] if call.fetched is not None else []
        fetches = tuple(
            ConstantsCopy(Place(TABLE, 0), Place(beside, fill.address), fill.size_bytes)
            for fill in call.fills
        )
        rows = {
            tensor: RowsAt(MEMORIES + placed.memory, lower, placed.addresses[lower:upper].tolist())
            for tensor, (placed, lower, upper) in at.items()
        }
        for tensor in (*self.tensors, RESULT):
            if tensor not in rows:
                size = self.op.second_row_bytes if tensor == SECOND else self.op.in_row_bytes
                lower, upper = touched(self.op, tensor, call.first, call.end)
                rows[tensor] = RowsAt(CONSTANT, lower, range(lower * size, upper * size, size))
        return Call(self.op, tuple(places), self.segments, self.pieces, rows, fetches)
