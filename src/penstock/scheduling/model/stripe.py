"""StripeConfig: a tensor split into stripes of one shape, at a constant stride along each axis.

        0  offset                                   extent
        |--#####------------------------------------|          stripe 0, `shape` elements
        |-----#####---------------------------------|          stripe 1, `strides` further on
           ...                                                 `stripes` of them; they may overlap

Source: TVM RFC 0037 and its class `StripeConfig`, with exact fractions instead of floats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from math import prod

from penstock.errors import UsageError
from penstock.frozen import frozen
from penstock.ir.affine import Affine, Number
from penstock.ir.tensor import Interval, Region, image_rows, row_axis, row_count, rows_region

Extents = tuple[int, ...]


@frozen
class ComputedBox:
    """A box of a tensor of the network, and the node that computes it in a graph with a node for
    each stripe; or a node that copies it, to read it as an array."""

    tensor: str
    region: Region
    node: str
    is_copy: bool = False


@frozen
class StripeConfig:
    """Stripes of a tensor.  Each field has one number per axis, in elements unless noted otherwise.

    shape: elements of a stripe.
    extent: elements of the tensor.
    strides: distance between stripes, possibly fractional (upsampling, channel blocks): stripe i
        starts at floor(offset + i * stride).
    order: position of the axis in the loop nest, 1 outermost; 0 for an axis without a loop.
    stripes: number of stripes along the axis, empty ones included.
    offset: start of the first stripe.
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
                f"the fields of a stripe configuration of {len(self.shape)} axes have "
                f"{', '.join(str(len(member)) for member in members)} numbers",
                where="StripeConfig",
                why="shape, extent, strides, order, stripes and offset have one number per axis",
                help="use one number per axis in each field",
            )

    def propagate(self, affine: Affine) -> StripeConfig:
        """Return the stripes of an operator's input, given those of its output (`self`).

        affine: the map from output elements to the input elements that they read.

        The fields of the result, for an input axis that depends on one output axis:
        shape, extent: number of input elements that are read for a stripe of shape `self.shape`,
            and for the whole output, both rounded up.
        strides: the stride of the output axis times the coefficient in `affine`, not rounded.
        order, stripes: those of the output axis.
        offset: the offset of the output axis, not multiplied by the coefficient, plus
            `affine.offset`.  It is inexact if several operators of a cascade have padding;
            `Affine.apply` gives the exact position of a stripe.

        If an input axis depends on several output axes, their contributions are added.  If it
        depends on none, its order is 0, and there is one stripe.
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
        """Return a dictionary from each shape of a stripe to the number of stripes of this shape.

        Stripes are clipped to the tensor; empty stripes are not counted.
        sliding_window: along each axis, remove from a stripe the elements that a previous stripe
            contains, because a rolling buffer still holds them.
        """
        counts: dict[Extents, int] = {(): 1}
        for axis in range(len(self.shape)):
            found = Counter(b - a for a, b in self._intervals(axis, sliding_window))
            sizes = sorted(found.items())
            counts = {
                (*shape, size): count * times
                for shape, count in counts.items()
                for size, times in sizes
            }
        return counts

    def regions(self, sliding_window: bool = False) -> Iterator[Region]:
        """Yield the stripes one by one, in the order of the loop nest.

        Stripes are clipped to the tensor; empty stripes are left out.
        sliding_window: along each axis, remove from a stripe the elements that a previous stripe
            contains.
        """
        axes = range(len(self.shape))
        intervals = [tuple(self._intervals(axis, sliding_window)) for axis in axes]
        nest = sorted(axes, key=lambda axis: self.order[axis])
        place = [nest.index(axis) for axis in axes]
        for stripe in product(*(intervals[axis] for axis in nest)):
            yield Region.of(*(stripe[k] for k in place))

    def _intervals(self, axis: int, sliding_window: bool) -> Iterator[Interval]:
        """Yield the stripes along one axis that are not empty, clipped to the tensor, in order.

        Stripe i covers the elements [s, s + shape) with s = offset + floor(i * stride).
        sliding_window: yield only the elements that no previous stripe covers.

        Raises UsageError if the stride is negative.
        """
        stride = self.strides[axis]
        if stride < 0:
            raise UsageError(
                "stripe-002",
                f"stripes are {stride} elements apart along axis {axis}, must be at least 0",
                where="StripeConfig",
                why="strides are not negative",
                help="start from the other end of the axis",
            )
        covered = 0
        for i in range(self.stripes[axis]):
            start = self.offset[axis] + i * stride.numerator // stride.denominator
            lower, upper = max(start, 0), min(start + self.shape[axis], self.extent[axis])
            if sliding_window:
                lower, covered = max(lower, covered), max(covered, upper)
            if lower < upper:
                yield lower, upper


def _pattern(affine: Affine) -> Affine:
    """Return an affine map with 1 in place of every non-zero coefficient.

    The constants (last column of the matrix) become 0, so the row (2, 0, 5) becomes (1, 0, 0).
    `Affine.offset` is unchanged.  `StripeConfig.propagate` uses the result to pass a field, such as
    the number of stripes, unscaled from an output axis to each input axis that depends on it.
    """
    rows = tuple((*(int(f != 0) for f in row[:-1]), 0) for row in affine.matrix)
    return Affine(rows, affine.offset)


def _whole(numbers: tuple[Number, ...]) -> tuple[int, ...]:
    return tuple(map(math.floor, numbers))


Stripes = tuple[StripeConfig, ...]
"""The stripes of a tensor in order; several configurations if sizes or distances change."""


def whole_tensor(shape: tuple[int, ...]) -> StripeConfig:
    """Return a tensor as a single stripe."""
    none = (0,) * len(shape)
    return StripeConfig(shape, shape, shape, none, (1,) * len(shape), none)


def row_stripes(shape: tuple[int, ...], rows: Iterable[Interval]) -> tuple[StripeConfig, ...]:
    """Return stripes of whole rows as stripe configurations, in order.

    rows: the rows of each stripe: all rows of the tensor, or some of one image.

    Consecutive stripes share a configuration if they have the same number of rows and a constant
    distance from one to the next.  The last stripe may have fewer rows if it ends with the tensor.

    >>> for config in row_stripes((9, 5, 3), [(0, 2), (2, 3), (3, 5), (5, 7), (7, 9)]):
    ...     print(config.offset, config.shape, config.stripes)
    (0, 0, 0) (2, 5, 3) (1, 1, 1)
    (2, 0, 0) (1, 5, 3) (1, 1, 1)
    (3, 0, 0) (2, 5, 3) (3, 1, 1)
    >>> (config,) = row_stripes((2, 9, 5, 3), [(0, 6), (6, 9), (9, 15), (15, 18)])
    >>> config.shape, config.stripes, config.order
    ((1, 6, 5, 3), (2, 2, 1, 1), (1, 2, 0, 0))
    """
    every, image = [(lower, upper) for lower, upper in rows], image_rows(shape)
    if image == row_count(shape):
        return tuple(_along_rows(shape, some) for some in _by_configuration(every, image))
    if every == [(0, row_count(shape))]:
        return (whole_tensor(shape),)
    by_image: dict[int, list[Interval]] = {}
    for lower, upper in every:
        number = lower // image
        local = lower - number * image, upper - number * image
        by_image.setdefault(number, []).append(local)
    axis = row_axis(len(shape))
    if len(by_image) * image == row_count(shape) and len({*map(tuple, by_image.values())}) == 1:
        of_first = row_stripes((*(1,) * axis, *shape[axis:]), by_image[0])
        if len(of_first) == 1:
            return (_in_every_image(of_first[0], shape, axis),)
    found: list[StripeConfig] = []
    for number, some in by_image.items():
        origin = rows_region(shape, number * image, (number + 1) * image)
        for config in row_stripes(origin.shape, some):
            offset = tuple(a + b for a, b in zip(config.offset, origin.lower, strict=True))
            found.append(replace(config, extent=shape, offset=offset))
    return tuple(found)


def _in_every_image(config: StripeConfig, shape: tuple[int, ...], axis: int) -> StripeConfig:
    """Return stripes of the first image, repeated in each image of a tensor.

    axis: the axis of rows.
    """
    loops = [a for a in range(len(shape)) if config.order[a] or (a < axis and shape[a] > 1)]
    order = tuple(loops.index(a) + 1 if a in loops else 0 for a in range(len(shape)))
    stripes = (*shape[:axis], *config.stripes[axis:])
    return replace(config, extent=shape, order=order, stripes=stripes)


def _by_configuration(rows: Iterable[Interval], extent: int) -> Iterator[list[Interval]]:
    """Divide the stripes of a tensor into lists; one stripe configuration can describe each list.

    Consecutive stripes are in one list as long as `_continues` permits it: if they have the same
    number of rows and a constant distance.
    """
    intervals: list[Interval] = []
    for lower, upper in rows:
        if intervals and not _continues(intervals, (lower, upper), extent):
            yield intervals
            intervals = []
        intervals.append((lower, upper))
    if intervals:
        yield intervals


def _continues(intervals: list[Interval], following: Interval, extent: int) -> bool:
    """Return whether one stripe configuration can describe both `intervals` and `following`.

    It can if the intervals have a constant distance and the same number of rows.  `following` may
    have fewer rows if it ends with the tensor.
    """
    (first, end), (lower, upper) = intervals[0], following
    distance = intervals[1][0] - first if len(intervals) > 1 else lower - first
    return 0 < distance == lower - intervals[-1][0] and upper == min(lower + end - first, extent)


def _along_rows(shape: tuple[int, ...], intervals: list[Interval]) -> StripeConfig:
    """Return stripes of equal height, at equal distances, as one configuration.

    intervals: the rows of each stripe; the last stripe may be lower if it ends with the tensor.
    """
    axis = row_axis(len(shape))
    first, end = intervals[0]
    distance = intervals[1][0] - first if len(intervals) > 1 else end - first

    def with_rows(others: tuple[int, ...], number: int) -> tuple[int, ...]:
        return (*others[:axis], number, *others[axis + 1 :])

    none = (0,) * len(shape)
    return StripeConfig(
        with_rows(shape, end - first),
        shape,
        with_rows(shape, distance),
        with_rows(none, int(len(intervals) > 1)),
        with_rows((1,) * len(shape), len(intervals)),
        with_rows(none, first),
    )


def stripe_heights(stripes: Stripes) -> list[int]:
    """Return the number of rows of each stripe, in no particular order."""
    return [
        row_count(shape)
        for config in stripes
        for shape, count in config.count_stripes().items()
        for _ in range(count)
    ]


def count_stripes(stripes: Stripes) -> int:
    """Return the number of stripes, empty ones left out."""
    return sum(sum(config.count_stripes().values()) for config in stripes)


def count_elements(stripes: Stripes) -> int:
    """Return how many elements all stripes contain in total."""
    return sum(
        count * prod(shape) for config in stripes for shape, count in config.count_stripes().items()
    )


def highest_stripe(stripes: Stripes) -> int:
    """Return the maximum number of rows per stripe."""
    return max(row_count(config.shape) for config in stripes)
