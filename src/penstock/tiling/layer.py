"""Layer: what a tiler knows of an operator: its axes, and which part of each tensor a tile reads.

A layer computes something at every point of a box, the product of its axes; a tile is a smaller
box.  Axes that the output does not follow are summed over.  The tensors are boxes too:

>>> rows = Dimension.sliding(32, "h", window=3, before=1)
>>> rows.reads((0, 8)), rows.needs((0, 8)), rows.needs((8, 16))
((-1, 9), (0, 9), (7, 17))
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.errors import UsageError
from penstock.ir.affine import Number
from penstock.ir.region import Interval

INPUT, WEIGHTS, OUTPUT = ROLES = ("input", "weights", "output")
MOST_GROWTH = 8
"""Points."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of `extent` points.  Tiles extend over `least` points, over multiples of `step` more,
    or over all; an engine computes `lanes` of them at once."""

    name: str
    extent: int
    least: int = 1
    step: int = 1
    lanes: int = 1

    @property
    def extents(self) -> tuple[int, ...]:
        """Every extent that a tile may have, in points, the least first.

        >>> Axis("c", 20, least=8, step=8).extents
        (8, 16, 20)
        """
        return (*range(self.least, self.extent, self.step), self.extent)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a tensor, `size` elements.  Where it follows an axis, a tile [l, u) reads

        [floor(factor * l + offset), ceil(factor * u + offset + extra))

    clipped to the tensor, as an affine form does (`ir/affine.py`); else all of it."""

    size: int
    axis: str | None = None
    factor: Number = 1
    extra: Number = 0
    offset: Number = 0

    @staticmethod
    def sliding(
        size: int, axis: str, *, window: int, stride: int = 1, before: int = 0
    ) -> Dimension:
        """The dimension under a window that reaches over `window` elements, `before` of padding."""
        return Dimension(size, axis, stride, window - stride, -before)

    @property
    def window(self) -> int:
        """Elements from the first to the last that one point of the axis reads."""
        return math.ceil(self.factor + self.extra)

    @property
    def before(self) -> int:
        """Elements of padding before the tensor."""
        return max(0, -math.floor(self.offset))

    def after(self, extent: int) -> int:
        """Elements of padding behind the tensor that an axis of `extent` reaches."""
        return max(0, self.reads((0, extent))[1] - self.size)

    def reads(self, tile: Interval) -> Interval:
        """What the tile reads; it may leave the tensor."""
        if self.axis is None:
            return (0, self.size)
        lower = math.floor(self.factor * tile[0] + self.offset)
        return lower, math.ceil(self.factor * tile[1] + self.offset + self.extra)

    def stripe(self, extent: int) -> Dimension:
        """The dimension that so many points of the axis read, wherever they are.

        >>> Dimension.sliding(32, "h", window=3, before=1).stripe(4)
        Dimension(size=6, axis='h', factor=1, extra=2, offset=0)
        """
        most = math.ceil(self.factor * extent + self.extra) + (self.factor % 1 != 0)
        return Dimension(min(self.size, most), self.axis, self.factor, self.extra)

    def needs(self, tile: Interval) -> Interval:
        """What the tile reads of the tensor."""
        lower, upper = self.reads(tile)
        lower = min(max(lower, 0), self.size)
        return lower, max(lower, min(upper, self.size))


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a layer, dimensions from the outermost in memory to the innermost.

    `role`: input, weights or output; tells in which scratchpad it lies.  `partial_bytes`: of an
    element whose sum is not complete, where that is more than `element_bytes`."""

    name: str
    role: str
    dimensions: tuple[Dimension, ...]
    element_bytes: int = 1
    partial_bytes: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.size for d in self.dimensions)

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of an element whose sum is not complete."""
        return self.element_bytes if self.partial_bytes is None else self.partial_bytes

    def follows(self, axis: str) -> bool:
        """Whether what is read depends on where along the axis a tile lies."""
        return any(d.axis == axis for d in self.dimensions)


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer as a tiler sees it.  `cycles_per_point`: of an engine, for as many points as it
    has lanes: the taps of a window, say.  Raises UsageError where it contradicts itself."""

    name: str
    axes: tuple[Axis, ...]
    inputs: tuple[Operand, ...]
    output: Operand
    cycles_per_point: int = 1

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise UsageError(
                "tiling-001",
                fault,
                where=f'layer "{self.name}"',
                why="a tile is a box of the axes; each tensor's part of it must be a box, too",
                help="describe every tensor by dimensions that follow at most one axis each",
            )

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The inputs, then the output."""
        return (*self.inputs, self.output)

    @property
    def reduced(self) -> tuple[Axis, ...]:
        """The axes that are summed over."""
        return tuple(axis for axis in self.axes if not self.output.follows(axis.name))

    def axis(self, name: str) -> Axis:
        """The axis of that name."""
        return next(axis for axis in self.axes if axis.name == name)

    def with_axis(
        self,
        name: str,
        *,
        least: int | None = None,
        step: int | None = None,
        lanes: int | None = None,
    ) -> Layer:
        """The layer with other limits along an axis; `least` beyond the extent means all of it."""
        old = self.axis(name)
        new = Axis(
            name,
            old.extent,
            min(old.extent, least or old.least),
            step or old.step,
            lanes or old.lanes,
        )
        return replace(self, axes=tuple(new if a is old else a for a in self.axes))

    def stripe(self, name: str, extent: int) -> Layer:
        """The layer of so many points along an axis, wherever they are: what follows the axis has
        as many elements as those points can read, and no padding.  The layer where that is all."""
        old = self.axis(name)
        if extent >= old.extent:
            return self

        def part(operand: Operand) -> Operand:
            dimensions = (d.stripe(extent) if d.axis == name else d for d in operand.dimensions)
            return replace(operand, dimensions=tuple(dimensions))

        new = replace(old, extent=extent, least=min(old.least, extent))
        return replace(
            self,
            axes=tuple(new if a is old else a for a in self.axes),
            inputs=tuple(map(part, self.inputs)),
            output=part(self.output),
        )

    def growth(self, name: str) -> tuple[int, int]:
        """By how many points the first and the last tile along an axis may be larger than the
        others, since they read padding, which takes no room; at most `MOST_GROWTH`.  Not at all
        where extents go in steps of more than a point."""
        axis = self.axis(name)
        grown = (0, 0)
        for d in (d for o in self.inputs for d in o.dimensions if d.axis == name):
            more = (d.before, d.after(axis.extent))
            steps = (min(MOST_GROWTH, math.ceil(n / d.factor)) for n in more)
            grown = tuple(map(max, grown, steps))
        return (0, 0) if axis.step > 1 else (grown[0], grown[1])


def _faults(layer: Layer) -> Iterator[str]:
    names = [axis.name for axis in layer.axes]
    if len(set(names)) < len(names):
        yield "two axes have the same name"
    for axis in layer.axes:
        if min(axis.extent, axis.least, axis.step, axis.lanes) < 1 or axis.least > axis.extent:
            yield (
                f'axis "{axis.name}" of {axis.extent} points in tiles of at least {axis.least}, '
                f"steps of {axis.step}, {axis.lanes} lanes"
            )
    for operand in layer.operands:
        yield from _operand_faults(operand, names)
    for dimension in layer.output.dimensions:
        if dimension.axis in names:
            plain = Dimension(layer.axis(dimension.axis or "").extent, dimension.axis)
            if dimension != plain:
                yield f'the output\'s dimension along "{dimension.axis}" is not the axis itself'


def _operand_faults(operand: Operand, names: Sequence[str]) -> Iterator[str]:
    followed = [d.axis for d in operand.dimensions if d.axis is not None]
    if operand.role not in ROLES:
        roles = ", ".join(ROLES)
        yield f'tensor "{operand.name}" has role "{operand.role}", must be one of {roles}'
    if unknown := [axis for axis in followed if axis not in names]:
        yield f'tensor "{operand.name}" follows an axis "{unknown[0]}" that the layer has not'
    if len(set(followed)) < len(followed):
        yield f'two dimensions of tensor "{operand.name}" follow one axis'
    if any(d.factor <= 0 for d in operand.dimensions):
        yield f'tensor "{operand.name}" follows an axis backwards, or not at all'
    if min((*operand.shape, operand.element_bytes, operand.unfinished_bytes)) < 1:
        yield f'tensor "{operand.name}" has no elements, or elements of no bytes'
