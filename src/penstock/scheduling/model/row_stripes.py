"""row_stripes: the stripes of a tensor that is computed in intervals of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from penstock.ir.op import row_axis, row_count
from penstock.ir.region import Interval
from penstock.scheduling.model.stripe import StripeConfig

Stripes = tuple[StripeConfig, ...]
"""The stripes of a tensor in order; several configurations if sizes or distances change."""


def whole_tensor(shape: tuple[int, ...]) -> StripeConfig:
    """Return a tensor as a single stripe."""
    none = (0,) * len(shape)
    return StripeConfig(shape, shape, shape, none, (1,) * len(shape), none)


def row_stripes(shape: tuple[int, ...], rows: Iterable[Interval]) -> tuple[StripeConfig, ...]:
    """Return stripes of whole rows as stripe configurations, in order.

    shape: shape of the tensor, with extent 1 along the axes before that of the rows.
    rows: the rows of each stripe.

    Consecutive stripes share a configuration if they have the same number of rows and a constant
    distance from one to the next.  The last stripe may have fewer rows if it ends with the tensor.

    >>> for config in row_stripes((9, 5, 3), [(0, 2), (2, 3), (3, 5), (5, 7), (7, 9)]):
    ...     print(config.offset, config.shape, config.stripes)
    (0, 0, 0) (2, 5, 3) (1, 1, 1)
    (2, 0, 0) (1, 5, 3) (1, 1, 1)
    (3, 0, 0) (2, 5, 3) (3, 1, 1)
    """
    axis = row_axis(len(shape))
    return tuple(
        _along_rows(shape, axis, intervals) for intervals in _by_configuration(rows, shape[axis])
    )


def _by_configuration(rows: Iterable[Interval], extent: int) -> Iterator[list[Interval]]:
    """Divide the stripes of a tensor into lists; one stripe configuration can describe each list.

    Consecutive stripes are in one list as long as `_continues` permits it: if they have the same
    number of rows and a constant distance.
    rows: the rows of each stripe, in order.
    extent: number of rows of the tensor.
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

    intervals: consecutive intervals of rows that one configuration can describe.
    following: the next interval.
    extent: number of rows of the tensor.
    """
    (first, end), (lower, upper) = intervals[0], following
    distance = intervals[1][0] - first if len(intervals) > 1 else lower - first
    return 0 < distance == lower - intervals[-1][0] and upper == min(lower + end - first, extent)


def _along_rows(shape: tuple[int, ...], axis: int, intervals: list[Interval]) -> StripeConfig:
    """Return stripes of equal height, at equal distances, as one configuration.

    axis: the axis of the rows.
    intervals: the rows of each stripe; the last stripe may be lower if it ends with the tensor.
    """
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
