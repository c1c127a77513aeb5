"""Row units: into how many rows the storage of each tensor is divided.

Row scheduling treats a storage, the memory of a tensor and its aliases, as an array of rows, each
with a live range of its own.  By default, these are the rows of the tensor that owns the storage.
If no part accesses this tensor row by row, and the application does not supply it row by row (as a
streamed input), the storage may be divided into another number of rows of equal size.  This is
useful in two cases:

1. Parts access an alias that has more rows, row by row.  The storage is then divided into the rows
   of the alias.  Example: an input of shape (1, 1, 512, 16) has a single row; its alias of shape
   (1, 512, 1, 16) has 512.
2. A call that computes a whole tensor may overwrite an input of the same size.  The storages of the
   input and the output then get the same number of rows, if possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from penstock.ir.graph import Value
from penstock.ir.op import row_axis, row_count
from penstock.ir.tensor import TensorType
from penstock.scheduling.model.part import Part


def works_by_rows(part: Part) -> bool:
    """Return whether one call of the part can compute any interval of its output rows."""
    return part.kernel.by_rows and _rows_are_boxes(part.output.type.shape)


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
        (owners[value.name], row_count(value.type.shape))
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
        if not works_by_rows(part) or row_count(part.output.type.shape) == 1:
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

    pair: names of two storages of the same size.
    rows: number of rows of each storage, by name; updated.
    fixed: names of the storages whose number of rows must not change.
    """
    for one, other in (pair, pair[::-1]):
        if one not in fixed and (other in fixed or rows[other] > rows[one]):
            rows[one] = rows[other]


def _rows_are_boxes(shape: tuple[int, ...]) -> bool:
    """Return whether every interval of a tensor's rows is a box, that is, a hyper-rectangle.

    The row axis is the third axis from the end, or the first one of two axes (`row_axis`).  Rows
    are numbered along this axis and all axes before it.  An interval of rows may therefore begin in
    one image and end in the next; it is then no box.  This is impossible if all axes before the row
    axis have extent one.  Example: True for (1, H, W, C), False for (2, H, W, C).  A tensor with
    fewer than two axes has a single row; the result is False.
    """
    return len(shape) > 1 and prod(shape[: row_axis(len(shape))]) == 1
