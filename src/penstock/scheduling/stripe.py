"""StripeConfig: a tensor computed in stripes of one shape, a constant stride apart along each axis.

        0  offset                                   extent
        |--#####------------------------------------|          stripe 0, `shape` elements
        |-----#####---------------------------------|          stripe 1, `strides` further on
           ...                                                 `stripes` of them; they may overlap

Source: TVM RFC 0037, and the rules of its `StripeConfig`; with exact fractions for floats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.ir.affine import Affine, Number

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StripeConfig:
    """One number for each axis of the tensor, in elements but for:

    `order`: position of the axis in the nest of loops, 1 outermost; 0 where it has no loop.
    `stripes`: stripes along the axis, empty ones counted.
    `strides` may be fractions (up-scaling, bricks): stripe i starts at floor(offset + i * stride).
    """

    shape: Extents
    extent: Extents
    strides: tuple[Number, ...]
    order: tuple[int, ...]
    stripes: tuple[int, ...]
    offset: tuple[int, ...]

    def __post_init__(self) -> None:
        members = (self.extent, self.strides, self.order, self.stripes, self.offset)
        if any(len(member) != len(self.shape) for member in members):
            raise UsageError(
                "stripe-001",
                f"a stripe configuration of {len(self.shape)} axes has members of "
                f"{', '.join(str(len(member)) for member in members)} numbers",
                why="shape, extent, strides, order, stripes and offset speak of the same axes",
                help="give one number for each axis in each",
            )

    def propagate(self, affine: Affine) -> StripeConfig:
        """How an input is striped where this is how the output is.

        Shape and extent are of the boxes that are read, rounded up.  Strides are not rounded,
        and constants do not move them.  Order, stripes and offset follow the axes wherever a factor
        is not zero, whatever the factor; the form's offset is added.  What has no stripe has one.

        An offset of this configuration is not scaled: where a cascade is padded twice, only
        `Affine.apply` says exactly where a stripe lies.
        """
        follow = _pattern(affine)
        stripes, offset = follow.linear(self.stripes), follow.linear(self.offset)
        return StripeConfig(
            shape=affine.extents(self.shape),
            extent=affine.extents(self.extent),
            strides=affine.linear(self.strides),
            order=_whole(follow.linear(self.order)),
            stripes=tuple(n or 1 for n in _whole(stripes)),
            offset=_whole(tuple(a + b for a, b in zip(offset, affine.offset, strict=True))),
        )

    def count_stripes(self, sliding_window: bool = False) -> dict[Extents, int]:
        """How many stripes there are of each shape, clipped to the tensor; empty ones left out.

        `sliding_window`: only what no stripe before it along an axis has covered (rolling buffers).
        """
        counts: dict[Extents, int] = {(): 1}
        for axis in range(len(self.shape)):
            sizes = sorted(self._sizes(axis, sliding_window).items())
            counts = {
                (*shape, size): count * times
                for shape, count in counts.items()
                for size, times in sizes
            }
        return counts

    def _sizes(self, axis: int, sliding_window: bool) -> Counter[int]:
        """How many stripes there are of each size along an axis."""
        if self.strides[axis] < 0:
            raise UsageError(
                "stripe-002",
                f"stripes are {self.strides[axis]} elements apart along axis {axis}, must be at "
                "least 0",
                why="stripes run forward along every axis",
                help="start from the other end of the axis",
            )
        if min(self.shape[axis], self.extent[axis]) < 1:
            return Counter()
        stripes, offset = self.stripes[axis], self.offset[axis]
        row = _Row(self.shape[axis], self.extent[axis], self.strides[axis], stripes, offset)
        return row.new_sizes() if sliding_window else row.sizes()


@dataclass(frozen=True, slots=True)
class _Row:
    """Stripes along one axis: stripe i covers [start(i), start(i) + shape)."""

    shape: int
    extent: int
    stride: Number
    stripes: int
    offset: int

    def start(self, i: int) -> int:
        return self.offset + i * self.stride.numerator // self.stride.denominator

    def below(self, bound: int) -> int:
        """Stripes that start below `bound`; they are the first ones."""
        ahead = bound - self.offset
        if self.stride == 0:
            return self.stripes if ahead > 0 else 0
        first_at_bound = -(-ahead * self.stride.denominator // self.stride.numerator)
        return min(max(0, first_at_bound), self.stripes)

    def runs(self, lower: int, upper: int) -> Iterator[tuple[int, int]]:
        """(start, stripes that start there) of the stripes that start in [lower, upper)."""
        i, end = self.below(lower), self.below(upper)
        while i < end:
            start = self.start(i)
            following = min(self.below(start + 1), end)
            yield start, following - i
            i = following

    def sizes(self) -> Counter[int]:
        """Only stripes over an end of the axis are looked at one by one."""
        counts: Counter[int] = Counter()
        first, last = sorted((0, self.extent - self.shape))
        counts[min(self.shape, self.extent)] = self.below(last + 1) - self.below(first)
        for lower, upper in ((1 - self.shape, first), (last + 1, self.extent)):
            for start, count in self.runs(lower, upper):
                counts[min(start + self.shape, self.extent) - max(start, 0)] += count
        return _positive(counts)

    def new_sizes(self) -> Counter[int]:
        """Sizes of what no stripe before has covered: of the first stripe that reaches into the
        axis, of those behind it that end inside, of the first that ends outside."""
        counts: Counter[int] = Counter()
        first = self.below(1 - self.shape)
        if first == self.stripes:
            return counts
        end = self.below(self.extent - self.shape + 1)
        start = self.start(first)
        counts[min(start + self.shape, self.extent) - max(start, 0)] += 1
        inside = max(end, first + 1)
        self._count_steps(first, inside - 1, counts)
        if first < inside < self.stripes:
            covered = self.start(inside - 1) + self.shape
            counts[self.extent - max(self.start(inside), covered)] += 1
        return _positive(counts)

    def _count_steps(self, first: int, last: int, counts: Counter[int]) -> None:
        """Counts what stripes (first, last] add; a step is the stride rounded down or up."""
        step = self.stride.numerator // self.stride.denominator
        longer = self.start(last) - self.start(first) - (last - first) * step
        counts[min(step, self.shape)] += last - first - longer
        counts[min(step + 1, self.shape)] += longer


def _positive(counts: Counter[int]) -> Counter[int]:
    """The sizes that something has, and that are something."""
    return Counter({size: count for size, count in counts.items() if size > 0 and count > 0})


def _pattern(affine: Affine) -> Affine:
    """The same form with 1 for every factor that is not zero."""
    rows = tuple((*(int(f != 0) for f in row[:-1]), 0) for row in affine.matrix)
    return Affine(rows, affine.offset)


def _whole(numbers: tuple[Number, ...]) -> tuple[int, ...]:
    return tuple(map(math.floor, numbers))
