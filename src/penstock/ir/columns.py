"""The columns of images: which ones of its inputs a node reads to compute some of its output."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.ir.graph import Node
from penstock.ir.region import Interval, Region
from penstock.ir.tensor import TensorType

# Rank of an image, (N, H, W, C), and the axes of its rows and columns.
IMAGE_RANK, ROWS, COLUMNS = 4, 1, 2

# The columns [lower, upper) that are read, and of which tensor: pairs (tensor, columns).
ColumnReads = tuple[tuple[str, Interval], ...]


def with_columns(type: TensorType, columns: Interval) -> Region:
    """Return the region of an image that contains all rows and channels of some columns."""
    return Region.whole(type.shape).replace(COLUMNS, columns)


def column_reads(node: Node, columns: Interval) -> ColumnReads | None:
    """Return the columns of each tensor that a node reads to compute some columns of its output.

    None if a tensor is no image, if nothing of it or not its first row is needed (a cropped
    operator begins where its needs begin), or if a constant operand has columns.
    """
    found: list[tuple[str, Interval]] = []
    out = with_columns(node.output.type, columns)
    for value, need in node.reads(out):
        if value.data is not None:
            if need != Region.whole(value.type.shape):
                return None
        elif value.type.rank != IMAGE_RANK or need.empty or need.lower[ROWS]:
            return None
        else:
            found.append((value.name, need.intervals[COLUMNS]))
    return tuple(found)


def add_reads(reads: Iterable[tuple[str, Interval]], wanted: dict[str, Interval]) -> None:
    """Extend the wanted columns of each tensor by those that are read.

    The result is the smallest interval that contains both.
    """
    for name, (lower, upper) in reads:
        first, end = wanted.get(name, (lower, upper))
        wanted[name] = (min(first, lower), max(end, upper))
