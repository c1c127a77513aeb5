"""placed: what calls of one operation take where their rows lie.

What decides that is remembered: how far apart the rows are, and, where constants are copied, also
where everything lies, since a stream waits for copies that seem to meet rows.
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


@dataclass(frozen=True, slots=True)
class PlacedCosts:
    """Costs of an operation's calls; `tensors`: by tensor of the operation, which input of its node
    that is."""

    op: Operation
    segments: tuple[Segment, ...]
    pieces: tuple[Piece, ...]
    tensors: Mapping[int, int]
    _known: dict[Hashable, Breakdown] = field(default_factory=dict[Hashable, Breakdown])

    def of(self, call: PlacedCall) -> Breakdown:
        """What a call takes."""
        rows = {tensor: call.inputs[k] for tensor, k in self.tensors.items()}
        rows[RESULT] = call.output
        key = tuple(self._key(call, rows))
        if key not in self._known:
            self._known[key] = self._of(call, rows)
        return self._known[key]

    def _key(self, call: PlacedCall, rows: Mapping[int, PlacedRows | None]) -> Iterator[Hashable]:
        """What decides it."""
        yield call.end - call.first
        yield self.op.position(call.first, call.end)
        copies = bool(call.fills or self.op.buffered)
        if copies:
            yield call.scratch
            yield call.fetched
            yield call.fills
        for tensor, placed in rows.items():
            if placed is not None:
                lower, upper = touched(self.op, tensor, call.first, call.end)
                yield placed.steps[lower : upper - 1].tobytes()
                if copies:
                    yield placed.memory, int(placed.addresses[lower])

    def _of(self, call: PlacedCall, rows: Mapping[int, PlacedRows | None]) -> Breakdown:
        beside = MEMORIES + call.beside
        places = [Place(TABLE, 0)]
        places += [Place(beside, call.scratch)] if call.scratch is not None else []
        places += [Place(beside, call.fetched)] if call.fetched is not None else []
        fetches = tuple(
            ConstantsCopy(Place(TABLE, 0), Place(beside, fill.address), fill.size_bytes)
            for fill in call.fills
        )
        at = {
            tensor: self._rows_at(tensor, placed, *touched(self.op, tensor, call.first, call.end))
            for tensor, placed in rows.items()
        }
        made = Call(self.op, tuple(places), self.segments, self.pieces, at, fetches)
        return cost_of(self.op, made.actions(call.first, call.end))

    def _rows_at(self, tensor: int, placed: PlacedRows | None, lower: int, upper: int) -> RowsAt:
        """The rows of a tensor that a call touches."""
        if placed is None:
            size = self.op.second_row_bytes if tensor == SECOND else self.op.in_row_bytes
            return RowsAt(CONSTANT, lower, range(lower * size, upper * size, size))
        offsets = placed.addresses[lower:upper].tolist()
        return RowsAt(MEMORIES + placed.memory, lower, offsets)
