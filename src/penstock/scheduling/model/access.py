"""Determine which rows of its inputs each part of a graph reads (`rows.RowParts`).

The results are exact: they are computed from the input region that each single output row reads
(`Part.needs`), and are those of calls of several rows where the input has several images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError
from penstock.frozen import frozen
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op, Site
from penstock.ir.tensor import Region, TensorType, image_rows, row_axis, row_count, rows_region
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.queues import COUNTER_BYTES, QueueMemory

Counts = npt.NDArray[np.int32]


@frozen
class Storage:
    """The memory of a tensor and its aliases: `rows` rows of `row_bytes` bytes each.

    The rows are those of the tensor.  If no part accesses them one by one, they may instead be the
    rows of a tensor of another shape in the same memory (`row_units.py`).

    row_bytes: 0 if the storage has no memory of its own, because it is part of a queue's ring
        buffer, or because a surrounding program provides the memory.
    contiguous: whether the rows must be consecutive in memory, as an array.
    accumulates: whether all rows share the memory of one row.  Then each row overwrites the
        previous one, and only the last one is read.
    """

    name: str
    rows: int
    row_bytes: int
    contiguous: bool
    accumulates: bool = False

    @property
    def slots(self) -> int:
        """Number of rows held at a time: all, or one if each row overwrites the previous one."""
        return 1 if self.accumulates else self.rows

    @property
    def size_bytes(self) -> int:
        """Size of the memory in bytes: of all rows, or of a single one if all rows share it."""
        return self.slots * self.row_bytes


@frozen(eq=False)
class RowRead:
    """The rows of one input storage that a part reads.

    storage: index of the storage in `RowParts.storages`.
    needed[n]: how many of the first input rows are required to compute the first n output rows.
    done[n]: how many of the first input rows are not read again after the first n output rows.
    in_place: whether each output row r may overwrite row r of the storage.

    Both tables have the shape (number of output rows + 1,).
    """

    storage: int
    needed: Counts
    done: Counts
    in_place: bool

    @property
    def advance(self) -> float:
        """The lead of the input over the output at the time when half of the output is computed.

        This is the fraction of the input rows that are required by then, minus the fraction of the
        output rows that are computed.  About 0: both proceed in proportion; about 0.5: half of the
        output requires the whole input.  Example: 51 of 100 output rows require 80 % of the input;
        the result is 0.80 - 0.51 = 0.29.  The advances of tensors (`row_tables.advances`), which
        order the inputs of a part, are sums of these numbers.
        """
        middle = (len(self.needed) + 1) // 2  # the first integer above half of the output rows
        return self.needed[middle] / self.needed.max(initial=1) - middle / (len(self.needed) - 1)


@frozen
class RowPart:
    """Which rows a part reads and writes.

    written: index of the storage that the part writes.
    reads: one entry per input storage.
    whole: whether the part computes all output rows in one call.
    image_rows: output rows of an image (`image_rows`).
    recurrent: whether each output row depends on the previous one.
    scratch_bytes: least scratch memory with which the part can run (`Part.least_scratch_bytes`).
    """

    written: int
    reads: tuple[RowRead, ...]
    whole: bool
    image_rows: int
    recurrent: bool
    scratch_bytes: int


@dataclass(frozen=True, eq=False)
class RowParts:
    """Which rows each part of a graph reads and writes.

    storages: the memory of each tensor; aliases share one entry.
    row_parts: one entry per part, in the order of `Parts.parts`.
    inputs, outputs: indices of the storages of the network's inputs and outputs.  States and
        queues, which keep data from one run to the next, are in both.
    """

    storages: tuple[Storage, ...]
    row_parts: tuple[RowPart, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def number(self) -> Mapping[str, int]:
        """Index of each storage by name."""
        return {storage.name: k for k, storage in enumerate(self.storages)}

    @cached_property
    def least_bytes(self) -> int:
        """Lower bound of the memory of any schedule, in bytes.

        The maximum of three sizes: all network inputs together; all network outputs together; and
        the most bytes that a part needs to compute one output row (`row_bytes`).
        """
        rows = (self.row_bytes(k) for k in range(len(self.row_parts)))
        return max(self.inputs_bytes, self.outputs_bytes, *rows)

    @property
    def inputs_bytes(self) -> int:
        """Bytes that are live before the first part runs: all network inputs together."""
        return sum(self.storages[k].size_bytes for k in self.inputs)

    @property
    def outputs_bytes(self) -> int:
        """Bytes of all network outputs together."""
        return sum(self.storages[k].size_bytes for k in self.outputs)

    def row_bytes(self, k: int) -> int:
        """Return the most bytes that part k needs to compute one of its output rows.

        These bytes hold the input rows that must be in memory, and the output row itself unless it
        may overwrite an input row.
        """
        part = self.row_parts[k]
        written = self.storages[part.written]
        taken = np.zeros(written.rows, np.int64)
        for read in part.reads:
            rows = np.maximum(0, read.needed[1:] - read.done[:-1]).astype(np.int64)
            taken += rows * self.storages[read.storage].row_bytes
        over = any(read.in_place for read in part.reads)
        return int(taken.max()) + (0 if over else written.row_bytes)


def rows_coincide(value: Value, storage: Storage) -> bool:
    """Return whether each row r of a value is row r of its storage.

    This is the case if both have equally many rows.
    """
    return row_count(value.shape) == storage.rows


def row_parts(
    graph: Graph,
    parts: Sequence[Part],
    inputs: Sequence[Value],
    owners: Mapping[str, str],
    queues: Sequence[QueueMemory] = (),
    outside: frozenset[str] = frozenset(),
) -> RowParts:
    """Return, for all parts, which rows of their inputs they read to compute their output rows.

    inputs: the graph's inputs, states and queues that are in memory before the first part runs.
    owners: name of the storage of each value, by value name.
    queues: how each queue (the last rows of a sequence, kept between runs) is stored.
    outside: names of the inputs and outputs whose memory a surrounding program provides; the
        field `row_bytes` of their storages is 0.

    Raises InternalError if a storage has memory for only one row (`Storage.accumulates`) and a part
    reads a row other than the last one, because later rows have overwritten it.
    """
    values = {v.name: v for v in graph.variables()}
    counters = [queue.counter for queue in queues]
    read_first = [*(owners[v.name] for v in inputs), *counters]
    outputs = [*(owners[v.name] for v in graph.results if v.data is None), *counters]
    written = [owners[part.output.name] for part in parts]
    names = tuple(dict.fromkeys((*read_first, *written)))
    number = {name: k for k, name in enumerate(names)}
    windows = {value.name: queue for queue in queues for value in queue.queue.views}
    of_queues = {storage.name: storage for queue in queues for storage in _of_queue(queue)}
    types = {name: values[name].type for name in names if name not in of_queues}
    rows = {name: storage.rows for name, storage in of_queues.items()}
    rows |= storage_rows(parts, owners, types)
    arrays = _read_as_arrays(parts, owners, rows, windows)
    contiguous = frozenset((*read_first, *outputs, *arrays))
    single = frozenset(p.output.name for p in parts if _shares_one_slot(p)) - contiguous
    storages = tuple(
        of_queues.get(n)
        or _storage(values[n], rows[n], n in contiguous, n in single, outside=n in outside)
        for n in names
    )
    readers = _reader_counts(parts, owners)
    analysis = _RowAnalysis(owners, storages, number, readers, windows, outside)
    found = tuple(analysis.row_part(part) for part in parts)
    _check_last_rows(storages, found)
    ends = (tuple(number[n] for n in dict.fromkeys(names)) for names in (read_first, outputs))
    return RowParts(storages, found, *ends)


def _shares_one_slot(part: Part) -> bool:
    """Return whether all output rows of a part can share the memory of one row.

    This is the case if the part computes each row by adding to the previous one.
    """
    return part.kernel.accumulates and works_by_rows(part)


def _check_last_rows(storages: tuple[Storage, ...], row_parts: tuple[RowPart, ...]) -> None:
    """Check that no part reads an overwritten row.

    A storage that has memory for only one row (`Storage.accumulates`) keeps its last row; all
    others are overwritten.

    Raises InternalError if a part reads an overwritten row.
    """
    for read in (read for part in row_parts for read in part.reads):
        storage = storages[read.storage]
        if storage.accumulates and read.done[0] < storage.rows - 1:
            raise InternalError(
                "rows-001",
                f'row {read.done[0]} of "{storage.name}" is read, but only its last row is kept',
            )


def _storage(
    value: Value, rows: int, contiguous: bool, accumulates: bool, *, outside: bool
) -> Storage:
    row_bytes = 0 if outside else value.type.size_bytes // rows
    return Storage(value.name, rows, row_bytes, contiguous, accumulates)


def _of_queue(queue: QueueMemory) -> tuple[Storage, ...]:
    """Return the storages of a queue, which keeps the last rows of a sequence between runs.

    These are a ring buffer of rows, the counter that locates its first row, the new rows, and
    guests: tensors stored in unused slots of the ring.  The storages of new rows and guests have
    `row_bytes` 0, because they are part of the ring.
    """
    return (
        Storage(queue.ring, queue.queue.rows, queue.row_bytes, contiguous=True),
        Storage(queue.counter, 1, COUNTER_BYTES, contiguous=True),
        Storage(queue.new, queue.queue.new_rows, 0, contiguous=True),
        *(Storage(guest.value.name, 1, 0, contiguous=True) for guest in queue.guests),
    )


def _read_as_arrays(
    parts: Sequence[Part],
    owners: Mapping[str, str],
    rows: Mapping[str, int],
    windows: Mapping[str, QueueMemory],
) -> frozenset[str]:
    """Return the names of the storages that must be contiguous arrays.

    A storage must be contiguous in two cases:

    - It holds an operand of a kernel that always computes all rows in one call.
    - It holds an operand that has another number of rows than the storage and is not in `windows`.
    """
    found: set[str] = set()
    for part in parts:
        for value in (*part.variable_inputs, part.output):
            name = owners[value.name]
            alike = value.name in windows or row_count(value.shape) == rows[name]
            if not part.kernel.by_rows or not alike:
                found.add(name)
    return frozenset(found)


def _reader_counts(parts: Sequence[Part], owners: Mapping[str, str]) -> Counter[str]:
    """Return the number of parts that read each storage, by storage name."""
    return Counter(
        name for part in parts for name in {owners[v.name] for v in part.variable_inputs}
    )


@frozen
class _RowAnalysis:
    """Determines which input rows a single part reads, from data about the whole graph.

    A part is a node or a streamed input as a unit of scheduling, with its kernels.

    owner: name of the storage of each value, by value name.
    storages: all storages; `number` has the index of each one, by name.
    readers: number of parts that read each storage, by storage name.
    windows: for each tensor that is read from the ring of a queue, by name, this queue.  Such a
        tensor is the window of the queue (the rows kept from earlier runs and the new rows), or a
        slice of the window.
    outside: names of the storages whose memory a surrounding program provides.
    """

    owner: Mapping[str, str]
    storages: tuple[Storage, ...]
    number: Mapping[str, int]
    readers: Counter[str]
    windows: Mapping[str, QueueMemory]
    outside: frozenset[str]

    def row_part(self, part: Part) -> RowPart:
        """Return which input rows one part reads to compute its output rows."""
        written = self.number[self.owner[part.output.name]]
        shape = part.output.shape
        calls = row_count(shape) if works_by_rows(part) else 1
        read = dict.fromkeys(self.owner[v.name] for v in part.variable_inputs)
        reads = tuple(
            self._read(part, self.storages[self.number[name]], self.storages[written], calls)
            for name in read
        )
        scratch = part.least_scratch_bytes
        recurrent = part.kernel.recurrent
        return RowPart(written, reads, calls == 1, image_rows(shape), recurrent, scratch)

    def _read(self, part: Part, storage: Storage, written: Storage, calls: int) -> RowRead:
        inputs = _inputs_in(part, self.owner, storage)
        needed, done = self._tables(part, inputs, storage, written, calls)
        return RowRead(
            self.number[storage.name],
            needed,
            done,
            _may_overwrite_rows(part, inputs, storage, written, calls)
            and self._may_share_slots(storage, written),
        )

    def _tables(
        self,
        part: Part,
        inputs: tuple[int, ...],
        storage: Storage,
        written: Storage,
        calls: int,
    ) -> tuple[Counts, Counts]:
        """Return the tables `needed` and `done` of the `RowRead` for a part that reads `storage`.

        The first n output rows require the first needed[n] rows of `storage`; later output rows do
        not read the first done[n] rows.
        """
        taken = [self._row_intervals(part, k, storage, calls) for k in inputs]
        firsts, ends = (np.stack(rows).astype(np.int32) for rows in zip(*taken, strict=True))
        done = np.minimum.accumulate(firsts.min(axis=0)[::-1])[::-1]
        needed = np.maximum.accumulate(ends.max(axis=0))
        return (
            np.append(np.int32(0), np.resize(needed, written.rows)),
            np.append(np.resize(done, written.rows), np.int32(storage.rows)),
        )

    def _may_share_slots(self, storage: Storage, written: Storage) -> bool:
        """Return whether a part may store its output in the memory of an input.

        Two conditions must hold:
        - Neither storage is in the ring buffer of a queue, or in memory that does not belong to
          this graph (`Parts.outside`), such as the input of a band.
        - If the output is contiguous, and so replaces the whole input, the input is contiguous,
          too, and has no other reader.
        """
        rings = {name for queue in self.windows.values() for name in queue.inside}
        if not {written.name, storage.name}.isdisjoint(rings | self.outside):
            return False
        return not written.contiguous or (storage.contiguous and self.readers[storage.name] == 1)

    def _row_intervals(
        self, part: Part, k: int, storage: Storage, calls: int
    ) -> tuple[Counts, Counts]:
        """Return the intervals [first, end) of rows of `storage` that the calls of a part read.

        The result is two arrays (firsts, ends): call i reads rows [firsts[i], ends[i]).  For a call
        that reads nothing, firsts[i] is the number of rows and ends[i] is 0, so that minima and
        maxima over calls disregard it.  If the input is divided into other rows than `storage`, a
        call that reads any of them reads all rows of `storage`.

        If the input is the window of a queue or a section (slice) of a window, `storage` consists
        of the new rows; reads of the rows kept from the previous run are left out.
        """
        value = part.inputs[k]
        queue = self.windows.get(value.name)
        kept = 0 if queue is None else queue.kept_rows - queue.place(value.name)[0]
        firsts, ends = read_rows(part.nodes[-1], k, calls)
        reads = ends > max(kept, 0)
        if queue is not None or rows_coincide(value, storage):
            firsts, ends = np.maximum(firsts - kept, 0), ends - kept
        else:
            firsts, ends = np.zeros_like(firsts), np.full_like(ends, storage.rows)
        return np.where(reads, firsts, storage.rows), np.where(reads, ends, 0)


def _inputs_in(part: Part, owners: Mapping[str, str], storage: Storage) -> tuple[int, ...]:
    """Return the indices of a part's inputs that are in a storage."""
    return tuple(
        k
        for k, value in enumerate(part.inputs)
        if value.data is None and owners[value.name] == storage.name
    )


def _may_overwrite_rows(
    part: Part, inputs: tuple[int, ...], storage: Storage, written: Storage, calls: int
) -> bool:
    """Return whether each output row r of a part may overwrite row r of a storage that it reads.

    There are three conditions:

    - The output may overwrite each of `inputs` (`Part.in_place`).
    - `storage` and `written` have the same number of rows and the same bytes per row.
    - Each of `inputs` has the same rows as `storage`.  An alias, for example, may be divided into
      other rows.  The condition is dropped if a single call computes all output rows.
    """
    allowed = part.in_place()
    return (
        all(k in allowed for k in inputs)
        and (storage.rows, storage.row_bytes) == (written.rows, written.row_bytes)
        and (calls == 1 or all(rows_coincide(part.inputs[k], storage) for k in inputs))
    )


MOST_KNOWN = 2048
"""Size of the cache of `read_rows`.  Nodes with the same operator, attributes and shapes share a
result.  Such nodes occur in repeated layers, in the groups of channels of a layer, and in the
variant of a network whose input is streamed."""


def read_rows(node: Node, k: int, calls: int) -> tuple[Counts, Counts]:
    """Return the intervals [first, end) of rows of input `k` that the calls of a node read.

    calls: number of calls, equal to the number of output rows; 1 if one call computes all rows.

    The result is two read-only arrays (firsts, ends): call i reads rows [firsts[i], ends[i]), and
    computes output row i if there are several calls.  A call that reads nothing has
    firsts[i] = ends[i] = 0.
    """
    op, site = node.op, node.site.bare
    if isinstance(op, Composite):
        return _read_rows(op, site, k, calls)  # hashing the nodes inside would take longer
    return _known_rows(op, site, k, calls)


def _read_rows(op: Op, site: Site, k: int, calls: int) -> tuple[Counts, Counts]:
    shape, read = site.output.shape, site.inputs[k].shape
    rows = 1 if calls > 1 else row_count(shape)
    computed = [rows_region(shape, row, row + rows) for row in range(calls)]
    windows = [op.needs(site, region)[k] for region in computed]
    firsts = lasts = windows
    if calls > 1 and len(read) > 1 and row_count(read) > image_rows(read):
        firsts, lasts = _of_several_rows(windows, image_rows(shape))
    ends = [
        (0, 0) if w.empty else (row_interval(first, read)[0], row_interval(last, read)[1])
        for w, first, last in zip(windows, firsts, lasts, strict=True)
    ]
    found = np.array(ends, np.int32).T
    found.setflags(write=False)
    return found[0], found[1]


def _of_several_rows(
    windows: Sequence[Region], image: int
) -> tuple[Sequence[Region], Sequence[Region]]:
    """For each output row, the hulls of the regions of several images that this row and later rows
    of its image read, and that this row and earlier ones read.

    The region of a call begins and ends with a box, which may contain rows of the input before
    those of its first output row, if rows of an image come from several."""
    every = [windows[k : k + image] for k in range(0, len(windows), image)]
    later = [row for one in every for row in [*accumulate(one[::-1], Region.hull)][::-1]]
    return later, [row for one in every for row in accumulate(one, Region.hull)]


_known_rows = lru_cache(MOST_KNOWN)(_read_rows)


def row_interval(region: Region, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the smallest interval [first, end) of rows that contains a region of a tensor.

    shape: shape of the tensor.  Rows of a tensor of shape (N, H, W, C) are numbered n * H + h; a
        tensor with fewer than two axes has a single row.
    """
    if len(shape) < 2:
        return 0, 1
    first = last = 0
    for axis in range(row_axis(len(shape)) + 1):
        first = first * shape[axis] + region.lower[axis]
        last = last * shape[axis] + region.upper[axis] - 1
    return first, last + 1


def works_by_rows(part: Part) -> bool:
    """Return whether one call of the part can compute any interval of the rows of an image.

    The calls of accelerators compute all images, if there are several; a recurrent kernel would
    have to begin each image anew.
    """
    shape, kernel = part.output.shape, part.kernel
    is_image = row_count(shape) == image_rows(shape)
    images = is_image or not (kernel.recurrent or kernel.body is not None)
    return kernel.by_rows and len(shape) > 1 and images


def storage_rows(
    parts: Sequence[Part], owners: Mapping[str, str], storages: Mapping[str, TensorType]
) -> Mapping[str, int]:
    """Return the number of rows into which each storage is divided, by storage name.

    A storage has the name of the tensor that owns it, and contains this tensor and its aliases.
    owners: name of the storage of each value, by value name.
    storages: type of the owning tensor of each storage, by storage name.
    """
    rows = {name: row_count(type.shape) for name, type in storages.items()}
    accesses = [
        (owners[value.name], row_count(value.shape))
        for part in parts
        for value in _accessed_by_rows(part)
    ]
    fixed = {name for name, count in accesses if rows.get(name, 0) == count > 1}
    fixed |= {owners[part.name] for part in parts if part.streamed_input is not None}
    for name, count in accesses:
        if name in rows and name not in fixed:
            rows[name] = max(rows[name], count)
    fixed |= {name for name, count in accesses if count > 1}
    for part in parts:
        if not works_by_rows(part) or row_count(part.output.shape) == 1:
            for pair in _in_place_pairs(part, owners, storages):
                _divide_alike(pair, rows, fixed)
    return rows


def _accessed_by_rows(part: Part) -> Iterator[Value]:
    """Yield the values that the part's kernel accesses row by row."""
    if part.kernel.by_rows:
        yield from part.variable_inputs
        yield part.output


def _in_place_pairs(
    part: Part, owners: Mapping[str, str], storages: Mapping[str, TensorType]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of storages of the same size: the second may be written over the first.

    There is a pair (name of the input's storage, name of the output's storage) for each input that
    the output may overwrite.
    """
    written = owners[part.output.name]
    for k in part.in_place():
        read = owners[part.inputs[k].name]
        if {read, written} <= storages.keys() and (
            storages[read].size_bytes == storages[written].size_bytes
        ):
            yield read, written


def _divide_alike(pair: tuple[str, str], rows: dict[str, int], fixed: set[str]) -> None:
    """Give both storages of a pair the same number of rows, if that is possible.

    A storage that is not in `fixed` takes the number of rows of its partner if the partner is in
    `fixed` or has more rows.

    rows: number of rows of each storage, by name; updated.
    fixed: names of the storages whose number of rows must not change.
    """
    for one, other in (pair, pair[::-1]):
        if one not in fixed and (other in fixed or rows[other] > rows[one]):
            rows[one] = rows[other]
