"""placed: the costs of the kernel calls of an operation, given the addresses of its tensors.

Costs are cached. The cache key contains the number of output rows, the position of the windows
relative to padding (`Operation.position`), the number of rows of each NPU operation into which the
call is split, and the sizes of the copies of constants that the call makes. If a copy may overlap
rows that the call accesses, the key also contains all addresses, because operations then wait for
the copy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.uma import Breakdown, Place, PlacedCall, PlacedRows, StreamRows, StreamTransfer
from penstock_ethos_u.call import EncodedOperation, NpuCall, rows_read
from penstock_ethos_u.cost import cost_of
from penstock_ethos_u.operation import Operation

# Region numbers: constants; and, from MEMORIES on, the memories by index.
CONSTANTS, MEMORIES = range(2)


class RowAccess(NamedTuple):
    """Rows [lower, upper) of a tensor, which a call accesses.

    rows: addresses of all rows of the tensor; None for a constant."""

    rows: PlacedRows | None
    lower: int
    upper: int


Interval = tuple[int, int]
"""Output rows [first, end)."""


class Reads(NamedTuple):
    """What the calls for some output rows have in common.

    where: the part of cache keys that describes these rows.
    bounds: the rows [lower, upper) of each input that they read."""

    where: Hashable
    bounds: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class PlacedCosts:
    """The costs of the kernel calls of an operation, given the addresses of its tensors.

    encoded: the operation, and the sizes of its encoded constants.
    sources: for each input of the NPU operation, its index among the inputs of the node.
    _lengths: cache of the lengths of the row intervals into which a call is split
        (`NpuCall.lengths`). Calls have the same key if they compute equally many rows, if their
        windows have the same position relative to padding (`Operation.position`), and if the
        distances between consecutive rows are the same in each tensor.
    _scratch: cache of the sizes of scratch, by the interval of rows and the distances.
    _reads: cache of what rows [first, end) read (`Reads`).
    _known: cache of costs. Calls have the same key if they agree in the number of rows, the
        position of their windows, the lengths in `_lengths` and the copies (`_copies`)."""

    encoded: EncodedOperation
    sources: tuple[int, ...]
    _known: dict[Hashable, Breakdown] = field(default_factory=dict[Hashable, Breakdown])
    _lengths: dict[Hashable, Hashable] = field(default_factory=dict[Hashable, Hashable])
    _scratch: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _reads: dict[Interval, Reads] = field(default_factory=dict[Interval, Reads])

    @property
    def op(self) -> Operation:
        """Shorthand for `encoded.operation`."""
        return self.encoded.operation

    def cost(self, call: PlacedCall) -> Breakdown:
        """Return the cost of a call: its elapsed cycles, and the busy cycles of each unit of the
        NPU (`cost_of`)."""
        interval, accesses = (call.first, call.end), self._accesses(call)
        where, steps = self._reads[interval].where, _steps(accesses)
        lengths = self._lengths.get((where, steps))
        if lengths is None:
            lengths = self._call(call, accesses).lengths(*interval)
            self._lengths[where, steps] = lengths
        copies = tuple(self._copies(call, accesses)) if call.fills or self.op.buffered else ()
        key = where, lengths, copies
        found = self._known.get(key)
        if found is None:
            actions = self._call(call, accesses).actions(*interval)
            found = self._known[key] = cost_of(self.op, actions)
        return found

    def scratch_bytes(self, call: PlacedCall) -> int:
        """Return the size of the scratch of a call in bytes."""
        if self.encoded.steps is not None:
            return self.encoded.steps.scratch_bytes
        if not self.op.gather_bytes:
            return self.op.scratch_bytes
        interval, accesses = (call.first, call.end), self._accesses(call)
        key = interval, _steps(accesses)
        if key not in self._scratch:
            self._scratch[key] = self._call(call, accesses).scratch_bytes(*interval)
        return self._scratch[key]

    def _accesses(self, call: PlacedCall) -> list[RowAccess]:
        """The rows of each tensor that a call accesses, the output last."""
        interval = call.first, call.end
        if interval not in self._reads:
            bounds = (rows_read(self.encoded, k, *interval) for k in range(len(self.sources)))
            where = interval[1] - interval[0], self.op.position(*interval)
            is_one = self.encoded.steps is None
            self._reads[interval] = Reads(where if is_one else interval, tuple(bounds))
        every = zip(self.sources, self._reads[interval].bounds, strict=True)
        accesses = [RowAccess(call.inputs[source], *bounds) for source, bounds in every]
        return [*accesses, RowAccess(call.output, *interval)]

    def _copies(self, call: PlacedCall, accesses: Sequence[RowAccess]) -> Iterator[Hashable]:
        """The elements of the cache key in `cost` that describe the copies of constants that
        a call makes."""
        # The first element contains the size of each copy, and whether the copy is for this call or
        # for a later one.  If the target of a copy may overlap rows that the call accesses, further
        # elements contain the addresses of all copies and of all accessed rows.
        yield tuple((fill.size_bytes, fill.address == call.prefetched) for fill in call.fills)
        copied = [(fill.address, fill.address + fill.size_bytes) for fill in call.fills]
        if self.op.buffered:
            assert call.scratch is not None
            copied.append((call.scratch, call.scratch + self.op.scratch_bytes))
        placed = [
            (rows, lower, upper)
            for rows, lower, upper in accesses
            if rows is not None and lower < upper
        ]
        if any(self._overlaps(copied, *each) for each in placed):
            yield call.scratch, call.prefetched, call.fills
            for rows, lower, upper in placed:
                yield rows.memory, rows.addresses[lower:upper].tobytes()

    def _overlaps(
        self, copied: list[tuple[int, int]], rows: PlacedRows, lower: int, upper: int
    ) -> bool:
        """Whether any copy may write to rows [lower, upper) of a tensor or between them."""
        # If so, the cache key of the call's cost must contain addresses (`_copies`).
        op, addresses = self.op, rows.addresses[lower:upper]
        first, last = int(addresses.min()), int(addresses.max())
        second = 0 if op.second is None else op.second.row_bytes
        last += max(op.in_row_bytes, second, op.out_row_bytes)
        return any(at < last and end > first for at, end in copied)

    def _call(self, call: PlacedCall, accesses: Sequence[RowAccess]) -> NpuCall:
        """The `NpuCall` for a call whose addresses are known. In an `NpuCall`, an address
        consists of the number of a memory region and an offset."""
        beside = MEMORIES + call.beside
        transfers = tuple(
            StreamTransfer(Place(CONSTANTS, 0), Place(beside, fill.address), fill.size_bytes)
            for fill in call.fills
        )
        *inputs, result = (self._rows(k, access) for k, access in enumerate(accesses))
        return NpuCall(
            self.encoded,
            tuple(inputs),
            result,
            Place(CONSTANTS, 0),
            None if call.scratch is None else Place(beside, call.scratch),
            None if call.prefetched is None else Place(beside, call.prefetched),
            transfers,
        )

    def _rows(self, tensor: int, access: RowAccess) -> StreamRows:
        rows, lower, upper = access
        if rows is not None:
            base = MEMORIES + rows.memory
            return StreamRows(base, lower, rows.addresses[lower:upper].tolist())
        second, steps = self.op.second, self.encoded.steps
        size = second.row_bytes if tensor == 1 and second is not None else self.op.in_row_bytes
        size = steps.row_bytes[tensor] if steps is not None else size
        return StreamRows(CONSTANTS, lower, range(lower * size, upper * size, size))


def _steps(accesses: Sequence[RowAccess]) -> Hashable:
    """The distances between consecutive rows of each tensor, as a cache key."""
    return tuple(
        rows.steps[lower : upper - 1].tobytes()
        for rows, lower, upper in accesses
        if rows is not None
    )
