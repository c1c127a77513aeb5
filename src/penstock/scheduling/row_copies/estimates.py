"""Estimates of what copies of rows save in a cascade, before they are selected.

A copy of a tensor's rows saves this time:

    access times in slow memory - access times in the ring - setup times - stalls

A stall is the time for which the processor waits for a copy.  With double buffering, only the
copies in for the first call, and the copies out after the last one, are assumed to stall the
processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from penstock.scheduling.model.memories import FINE, MemorySystem
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.row_copy import RowCopy
from penstock.scheduling.options import Options
from penstock.scheduling.row_copies.conditions import copyable_in, copyable_out, readers, writer
from penstock.scheduling.simulate.row_tables import Numbers


@dataclass(frozen=True, slots=True)
class RowCopyEstimate:
    """What a copy of rows saves in a cascade, and the memory that it needs.

    saved: time in units of 1/1024 cycle (1/`FINE`).
    ring_bytes: estimated size of the ring: maximum number of live rows, times the bytes of a row.
    """

    copy: RowCopy
    saved: int
    ring_bytes: int


@dataclass(frozen=True, slots=True)
class StripedCascade:
    """A cascade that runs in stripes of rows.

    parts: indices of its parts, in execution order.
    lower: position of the first part in the execution order.
    stripe: maximum number of output rows per call.
    calls[i]: (position of the part, first row, end row, position of the part that requested the
        rows) of call i.
    """

    parts: tuple[int, ...]
    lower: int
    stripe: int
    calls: Numbers


@dataclass(frozen=True)
class RowCopyEstimates:
    """Estimates copies of rows in cascades of one graph.

    double_buffering: whether copies may overlap with computation.
    copies_out: whether rows may be copied out; requires `double_buffering`.
    _copyable: whether a tensor can be copied in or out, by cascade and tensor.
    _best: results of `best`, by parts and stripe of the cascade, tensor and its region.
    """

    parts: Parts
    memories: MemorySystem
    double_buffering: bool
    copies_out: bool
    _copyable: dict[tuple[tuple[int, ...], str], bool] = field(
        default_factory=dict[tuple[tuple[int, ...], str], bool]
    )
    _best: dict[tuple[tuple[int, ...], int, str, str], RowCopyEstimate | None] = field(
        default_factory=dict[tuple[tuple[int, ...], int, str, str], RowCopyEstimate | None]
    )

    def tensors(self, cascade: Sequence[int]) -> Iterator[str]:
        """Yield the tensors that can be copied in or out by rows in a cascade.

        cascade: indices of its parts.
        """
        every = [self.parts.parts[k] for k in cascade]
        read = (v.name for part in every for v in part.variable_inputs)
        for tensor in dict.fromkeys((*read, *(part.name for part in every))):
            key = tuple(cascade), tensor
            if key not in self._copyable:
                out = self.copies_out and copyable_out(self.parts, cascade, tensor)
                self._copyable[key] = out or copyable_in(self.parts, cascade, tensor)
            if self._copyable[key]:
                yield tensor

    def best(self, cascade: StripedCascade, tensor: str, region: str) -> RowCopyEstimate | None:
        """Return the estimate for the row copy that saves most time, of all possible row copies of
        a tensor (`of_tensor`); None if none saves time.

        region: name of the memory region of the tensor.
        """
        key = cascade.parts, cascade.stripe, tensor, region
        if key not in self._best:
            found = self.of_tensor(cascade, tensor, region)
            self._best[key] = max(found, key=lambda estimate: estimate.saved, default=None)
        return self._best[key]

    def of_tensor(
        self, cascade: StripedCascade, tensor: str, region: str
    ) -> Iterator[RowCopyEstimate]:
        """Estimate all row copies of a tensor; yield the estimates of those that save time.

        The tensor is copied out if the cascade writes it, and in otherwise.  The copies differ in
        the memory region of the ring.  Copies in also differ in double buffering, which is possible
        only if a single part of the cascade reads the tensor.
        region: name of the memory region of the tensor.
        """
        source = writer(self.parts, cascade.parts, tensor)
        rings = [ring.name for ring in self.memories.tensors[1:] if ring.name != region]
        if source is not None:
            copies = (RowCopy(tensor, ring, overlapped=True, out=True) for ring in rings)
            every = (self._copy_out(cascade, copy, region, source) for copy in copies)
        else:
            users = readers(self.parts, cascade.parts, tensor)
            modes = (False, True) if self.double_buffering and len(users) == 1 else (False,)
            copies = (RowCopy(tensor, ring, overlapped=o) for ring in rings for o in modes)
            every = (self._copy_in(cascade, copy, region, users) for copy in copies)
        yield from (estimate for estimate in every if estimate.saved > 0)

    def _copy_out(
        self, cascade: StripedCascade, copy: RowCopy, target: str, k: int
    ) -> RowCopyEstimate:
        """Return the estimate of `copy`, a copy out; `saved` is negative if it costs time.

        target: name of the memory region of the tensor, to which the rows are copied.
        k: index of the part that writes the tensor.
        """
        memories, rows = self.memories, self.parts.rows
        assert memories.copier is not None
        storage = rows.storages[rows.number[copy.tensor]]
        position = cascade.lower + cascade.parts.index(k)
        mine = cascade.calls[cascade.calls[:, 0] == position]
        counts = [int(end - first) for first, end in mine[:, 1:3].tolist()]
        sizes = [count * storage.row_bytes for count in counts]
        saved = sum(memories.access(target, s) - memories.access(copy.region, s) for s in sizes)
        transfer = FINE * memories.copy_cycles(copy.region, target, storage.row_bytes)
        saved -= storage.rows * FINE * memories.copier.setup_cycles + counts[-1] * transfer
        most = min(storage.rows, 2 * cascade.stripe)
        return RowCopyEstimate(copy, saved, most * storage.row_bytes)

    def _copy_in(
        self, cascade: StripedCascade, copy: RowCopy, source: str, users: tuple[int, ...]
    ) -> RowCopyEstimate:
        """Return the estimate of `copy`, a copy in; `saved` is negative if it costs time.

        source: name of the memory region of the copied tensor.
        users: indices of the parts that read the tensor.
        """
        memories, rows = self.memories, self.parts.rows
        assert memories.copier is not None
        s = rows.number[self.parts.owners[copy.tensor]]
        row_bytes = rows.storages[s].row_bytes
        reads = {k: read for k in users for read in rows.row_parts[k].reads if read.storage == s}
        done = dict.fromkeys(users, 0)
        saved = copied = most = exposed = 0
        for position, first, end in cascade.calls[:, :3].tolist():
            k = cascade.parts[position - cascade.lower]
            if k not in reads:
                continue
            needed, released = reads[k].needed, reads[k].done
            size = max(0, int(needed[end]) - int(released[first])) * row_bytes
            saved += memories.access(source, size) - memories.access(copy.region, size)
            last = len(needed) - 1
            copied = max(copied, int(needed[min(end + copy.overlapped * cascade.stripe, last)]))
            exposed = exposed or int(needed[min(cascade.stripe, last)])
            most = max(most, copied - min(done.values()))
            done[k] = int(released[end])
        transfer = FINE * memories.copy_cycles(source, copy.region, row_bytes)
        waited = exposed if copy.overlapped else copied
        saved -= copied * FINE * memories.copier.setup_cycles + waited * transfer
        return RowCopyEstimate(copy, saved, most * row_bytes)


def row_copy_estimates(
    parts: Parts, memories: MemorySystem, options: Options
) -> RowCopyEstimates | None:
    """Return an object that estimates row copies; None if schedules cannot contain row copies.

    The result is None if the target has no copy engine or no second memory for tensors, if the
    option `row_copies` is off, or if a part has a kernel that reads prefetched constants.
    """
    possible = memories.copier is not None and len(memories.tensors) > 1 and not parts.can_prefetch
    if not options.row_copies or not possible:
        return None
    overlapped = options.row_double_buffering
    return RowCopyEstimates(parts, memories, overlapped, overlapped and options.row_copies_out)
