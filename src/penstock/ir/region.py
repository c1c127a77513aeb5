"""Region: a half-open box of tensor indices, with intersection, hull and translation."""

from __future__ import annotations

import math
from operator import le, sub

from penstock.frozen import frozen

Interval = tuple[int, int]


@frozen
class Region:
    """The indices i with lower[a] <= i[a] < upper[a] along every axis a.

    >>> Region((0, 2), (4, 5)).shape
    (4, 3)
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]

    @staticmethod
    def whole(shape: tuple[int, ...]) -> Region:
        return Region((0,) * len(shape), shape)

    @staticmethod
    def of(*intervals: Interval) -> Region:
        lower, upper = zip(*intervals, strict=True) if intervals else ((), ())
        return Region(lower, upper)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        return tuple(zip(self.lower, self.upper, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(max(0, upper - lower) for lower, upper in self.intervals)

    @property
    def elements(self) -> int:
        return 0 if self.empty else math.prod(map(sub, self.upper, self.lower))

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(lower, upper) for lower, upper in self.intervals)

    @property
    def empty(self) -> bool:
        return any(map(le, self.upper, self.lower))

    def meet(self, other: Region) -> Region:
        """The intersection; empty if the boxes are disjoint."""
        lower = tuple(map(max, self.lower, other.lower))
        return Region(lower, tuple(map(max, lower, map(min, self.upper, other.upper))))

    def hull(self, other: Region) -> Region:
        """The smallest box that contains both boxes."""
        if self.empty or other.empty:
            return other if self.empty else self
        return Region(
            tuple(map(min, self.lower, other.lower)), tuple(map(max, self.upper, other.upper))
        )

    def contains(self, other: Region) -> bool:
        return other.empty or self.meet(other) == other

    def shift(self, offset: tuple[int, ...]) -> Region:
        return Region(
            tuple(a + b for a, b in zip(self.lower, offset, strict=True)),
            tuple(a + b for a, b in zip(self.upper, offset, strict=True)),
        )

    def replace(self, axis: int, interval: Interval) -> Region:
        """This box with another interval along `axis`."""
        return Region(
            (*self.lower[:axis], interval[0], *self.lower[axis + 1 :]),
            (*self.upper[:axis], interval[1], *self.upper[axis + 1 :]),
        )
