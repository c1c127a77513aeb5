"""rows: which rows of what it reads a part needs for the first rows of its output, and until when.

A storage is rows (`ir/op.py`, `row_axis`).  A part whose kernel works by rows computes any interval
of them; any other computes all at once.  For each storage that a part reads, two counts say all
that a schedule by rows must know: once the first n rows of the output are there,

    needed[n]   rows of the storage must have been there: the first ones, so many
    done[n]     rows of the storage are not read again: the first ones, so many

Both are found by asking the operator for the region that each single row reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock.errors import InternalError
from penstock.ir.graph import Value
from penstock.ir.op import row_axis, row_count
from penstock.ir.region import Region

if TYPE_CHECKING:
    from penstock.scheduling.part import Part, Parts

Counts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Storage:
    """Memory of a value and its aliases: `rows` of `row_bytes` each.

    `contiguous`: its rows must lie one behind the other, for someone sees them as one array.
    `accumulates`: its rows share one place: each is written over the one before, and only the last
    one is read."""

    name: str
    rows: int
    row_bytes: int
    contiguous: bool
    accumulates: bool = False

    @property
    def places(self) -> int:
        """How many rows there is room for; row r lies in place r, or all lie in one."""
        return 1 if self.accumulates else self.rows

    @property
    def size_bytes(self) -> int:
        return self.places * self.row_bytes


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """What a part needs of storage number `storage`: `needed` and `done`, each a count for every
    number of output rows from none to all.

    `in_place`: each row of the output may be written over the same row of the storage."""

    storage: int
    needed: Counts
    done: Counts
    in_place: bool

    @property
    def ahead(self) -> float:
        """How far in the middle of its work the part has read ahead, as a fraction of the whole."""
        middle = (len(self.needed) + 1) // 2
        return self.needed[middle] / self.needed.max(initial=1) - middle / (len(self.needed) - 1)


@dataclass(frozen=True, slots=True)
class RowPart:
    """A part as rows see it: the storage that it writes, and what it reads.

    `whole`: it computes all rows of its output at once; `accumulates`: each from the one before;
    `scratch_bytes`: what it cannot do without."""

    written: int
    reads: tuple[Read, ...]
    whole: bool
    accumulates: bool
    scratch_bytes: int


@dataclass(frozen=True, eq=False)
class RowParts:
    """The parts of a graph and their storages; numbers in `inputs`, `outputs` and parts are those
    of storages."""

    storages: tuple[Storage, ...]
    row_parts: tuple[RowPart, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def number(self) -> Mapping[str, int]:
        """Number of a storage by name."""
        return {storage.name: k for k, storage in enumerate(self.storages)}

    @cached_property
    def least_bytes(self) -> int:
        """What no schedule can do without: inputs or outputs, or a row of a part's output with the
        rows that it reads."""
        ends = (sum(self.storages[k].size_bytes for k in ks) for ks in (self.inputs, self.outputs))
        return max(*ends, *(self._turn_bytes(part) for part in self.row_parts))

    def _turn_bytes(self, part: RowPart) -> int:
        """The most that one row of a part's output and the rows that it reads take; no output,
        where that may lie over what is read."""
        written = self.storages[part.written]
        taken = np.zeros(written.rows, np.int64)
        for read in part.reads:
            rows = np.maximum(0, read.needed[1:] - read.done[:-1]).astype(np.int64)
            taken += rows * self.storages[read.storage].row_bytes
        over = any(read.in_place for read in part.reads)
        return int(taken.max()) + (0 if over else written.row_bytes)

    @staticmethod
    def of(parts: Parts) -> RowParts:
        """The rows of all parts."""
        graph, owner = parts.graph, parts.owners
        values = {v.name: v for v in graph.variables()}
        inputs = [owner[v.name] for v in parts.inputs]
        outputs = [owner[v.name] for v in graph.outputs if v.data is None]
        made = [owner[part.output.name] for part in parts.parts]
        names = tuple(dict.fromkeys((*inputs, *made)))
        number = {name: k for k, name in enumerate(names)}
        contiguous = frozenset((*inputs, *outputs, *_seen_whole(parts, owner, values)))
        single = frozenset(p.output.name for p in parts.parts if _in_one_place(p)) - contiguous
        storages = tuple(_storage(values[n], n in contiguous, n in single) for n in names)
        making = _Making(owner, values, number, contiguous, _readers(parts, owner))
        row_parts = tuple(making.row_part(part) for part in parts.parts)
        _check_last_rows(storages, row_parts)
        ends = (tuple(number[n] for n in dict.fromkeys(names)) for names in (inputs, outputs))
        return RowParts(storages, row_parts, *ends)


def works_by_rows(part: Part) -> bool:
    """Whether the part may compute some rows of its output and not others."""
    return part.kernel.by_rows and _is_image(part.output.type.shape)


def alike(value: Value, storage: Value) -> bool:
    """Whether rows of a value are rows of the storage that holds it."""
    return row_count(value.type.shape) == row_count(storage.type.shape)


def _in_one_place(part: Part) -> bool:
    """Whether each row of the output may be written over the one before."""
    return part.kernel.accumulates and works_by_rows(part)


def _check_last_rows(storages: tuple[Storage, ...], row_parts: tuple[RowPart, ...]) -> None:
    """Raises InternalError where a row is read that others have been written over."""
    for read in (read for part in row_parts for read in part.reads):
        storage = storages[read.storage]
        if storage.accumulates and read.done[0] < storage.rows - 1:
            raise InternalError(
                "rows-001",
                f'row {read.done[0]} of "{storage.name}" is read, which holds its last row only',
            )


def _is_image(shape: tuple[int, ...]) -> bool:
    """Whether a row interval is a box: no axis above the rows but of extent one."""
    return len(shape) > 1 and prod(shape[: row_axis(len(shape))]) == 1


def _storage(value: Value, contiguous: bool, accumulates: bool) -> Storage:
    rows = row_count(value.type.shape)
    return Storage(value.name, rows, value.type.size_bytes // rows, contiguous, accumulates)


def _seen_whole(
    parts: Parts, owner: Mapping[str, str], values: Mapping[str, Value]
) -> frozenset[str]:
    """Storages of which a kernel that does not work by rows, or an alias, sees all as one array."""
    found: set[str] = set()
    for part in parts.parts:
        for value in (*part.variable_inputs, part.output):
            name = owner[value.name]
            if not part.kernel.by_rows or not alike(value, values[name]):
                found.add(name)
    return frozenset(found)


def _readers(parts: Parts, owner: Mapping[str, str]) -> Counter[str]:
    """How many parts read each storage."""
    return Counter(
        name for part in parts.parts for name in {owner[v.name] for v in part.variable_inputs}
    )


@dataclass(frozen=True, slots=True)
class _Making:
    """What must be known of the graph to say what one part reads."""

    owner: Mapping[str, str]
    values: Mapping[str, Value]
    number: Mapping[str, int]
    contiguous: frozenset[str]
    readers: Counter[str]

    def row_part(self, part: Part) -> RowPart:
        rows = row_count(part.output.type.shape)
        steps = rows if works_by_rows(part) else 1
        read = dict.fromkeys(self.owner[v.name] for v in part.variable_inputs)
        reads = tuple(self._read(part, name, rows, steps) for name in read)
        written = self.number[self.owner[part.output.name]]
        scratch = part.least_scratch_bytes
        return RowPart(written, reads, steps == 1, part.kernel.accumulates, scratch)

    def _read(self, part: Part, name: str, rows: int, steps: int) -> Read:
        storage = self.values[name]
        inputs = [
            k for k, v in enumerate(part.inputs) if v.data is None and self.owner[v.name] == name
        ]
        taken = [_taken(part, k, storage, steps) for k in inputs]
        firsts, ends = (np.array(column, np.int32) for column in zip(*taken, strict=True))
        done = np.minimum.accumulate(firsts.min(axis=0)[::-1])[::-1]
        needed = np.maximum.accumulate(ends.max(axis=0))
        return Read(
            self.number[name],
            np.append(np.int32(0), np.resize(needed, rows)),
            np.append(np.resize(done, rows), np.int32(row_count(storage.type.shape))),
            _over(part, inputs, storage) and self._may_join(part, name),
        )

    def _may_join(self, part: Part, name: str) -> bool:
        """Rows that must lie one behind the other may take the places only of such rows, and of all
        of them, as they do where nobody else reads those."""
        written = self.owner[part.output.name]
        return written not in self.contiguous or (
            name in self.contiguous and self.readers[name] == 1
        )


def _over(part: Part, inputs: list[int], storage: Value) -> bool:
    """Whether each row of the output may lie over the same row of the storage: element i depends on
    element i of it alone, through every input that lies in it."""
    allowed = part.in_place()
    values = [part.inputs[k] for k in inputs]
    return (
        all(k in allowed for k in inputs)
        and all(alike(value, storage) for value in (*values, part.output))
        and storage.type.size_bytes == part.output.type.size_bytes
    )


def _taken(part: Part, k: int, storage: Value, steps: int) -> tuple[list[int], list[int]]:
    """First rows and ends of what each step of the output takes of the storage of input k."""
    value = part.inputs[k]
    rows = row_count(storage.type.shape)
    pairs = [
        (rows, 0) if window.empty else
        rows_of(window, value.type.shape) if alike(value, storage) else
        (0, rows)
        for window in _windows(part, k, steps)
    ]  # fmt: skip
    return [first for first, _ in pairs], [end for _, end in pairs]


def _windows(part: Part, k: int, steps: int) -> list[Region]:
    """Region of input k that each step of the output reads: a row, or all where there is one."""
    shape = part.output.type.shape
    whole = Region.whole(shape)
    if steps == 1:
        return [part.needs(whole)[k]]
    axis = row_axis(len(shape))
    return [part.needs(whole.replace(axis, (r, r + 1)))[k] for r in range(steps)]


def rows_of(region: Region, shape: tuple[int, ...]) -> tuple[int, int]:
    """The interval of rows, counted through the axes above them, that contains a region."""
    if len(shape) < 2:
        return 0, 1
    axes = row_axis(len(shape)) + 1
    last = tuple(x - 1 for x in region.upper[:axes])
    first = int(np.ravel_multi_index(region.lower[:axes], shape[:axes]))
    return first, int(np.ravel_multi_index(last, shape[:axes])) + 1
