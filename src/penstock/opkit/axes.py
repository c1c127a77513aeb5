"""Constant inputs of imported nodes that list axes or paddings."""

from __future__ import annotations

from penstock.ir.foreign import ForeignNode
from penstock.opkit.checks import require


def constant_paddings(
    node: ForeignNode, k: int, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(before, after) of each of `rank` axes, from constant input k of shape (rank, 2)."""
    values = node.constant_ints(k)
    require(len(values) == 2 * rank, f"input {k} has {len(values)} elements, must have {2 * rank}")
    require(
        all(0 <= value < 2**31 for value in values),
        f"input {k} is {list(values)}, must be within [0, {2**31})",
    )
    return values[::2], values[1::2]


def resolved_axis(axis: int, rank: int) -> int:
    """A non-negative axis; negative ones count from the last.  Raises ModelError."""
    require(-rank <= axis < rank, f"axis is {axis}, must be within [{-rank}, {rank})")
    return axis % rank


def constant_axes(node: ForeignNode, k: int, rank: int) -> tuple[int, ...]:
    """Axes listed by constant input k, in ascending order without duplicates."""
    return tuple(sorted({resolved_axis(axis, rank) for axis in node.constant_ints(k)}))


def one_axis(node: ForeignNode, k: int, rank: int) -> int:
    """The single axis in constant input k."""
    axes = node.constant_ints(k)
    require(len(axes) == 1, f"input {k} has {len(axes)} elements, must have 1")
    return resolved_axis(axes[0], rank)
