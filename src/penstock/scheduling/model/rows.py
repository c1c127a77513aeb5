"""Row dependences: which rows of its inputs a part reads to compute the rows of its output.

A storage, the memory of a tensor, is an array of rows (`ir/op.py`, `row_axis`).  A part whose
kernel works by rows computes any interval of rows in one call; any other part computes all rows in
one call.  Two tables per input describe all that row scheduling needs.  When the first n rows of
the output have been computed,

    needed[n]   the first `needed[n]` rows of the input have been required
    done[n]     the first `done[n]` rows of the input are not read again
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.ir.graph import Value
from penstock.ir.op import row_count

Counts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True, eq=False)
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


@dataclass(frozen=True, slots=True)
class RowPart:
    """Which rows a part reads and writes.

    written: index of the storage that the part writes.
    reads: one entry per input storage.
    whole: whether the part computes all output rows in one call.
    recurrent: whether each output row depends on the previous one.
    scratch_bytes: least scratch memory with which the part can run (`Part.least_scratch_bytes`).
    """

    written: int
    reads: tuple[RowRead, ...]
    whole: bool
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
        ends = (sum(self.storages[k].size_bytes for k in ks) for ks in (self.inputs, self.outputs))
        return max(*ends, *(self.row_bytes(k) for k in range(len(self.row_parts))))

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
    return row_count(value.type.shape) == storage.rows
