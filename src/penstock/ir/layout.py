"""Layout: in which axes a tensor stands in memory: in another order, an axis split in bricks.

    NHCWB16   a tensor (N, H, W, C) as (N, H, bricks of C, W, 16), the last brick filled up

A box of the tensor lies in a box of what is stored, and the other way round: both are affine, so a
layout on either side of an operator is one more factor of the product (TVM RFC 0037).

>>> NHCWB16.stored_shape((1, 12, 14, 36))
(1, 12, 3, 14, 16)
>>> NHCWB16.pack.extents((1, 12, 14, 36))
(1, 12, 3, 14, 16)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from penstock.ir.affine import Affine, Number


@dataclass(frozen=True, slots=True)
class StoredAxis:
    """An axis of what is stored: `axis` of the tensor in steps of `brick` elements; of no axis,
    the `brick` elements of one step."""

    axis: int | None
    brick: int = 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Every axis of the tensor is the axis of exactly one stored axis."""

    name: str
    axes: tuple[StoredAxis, ...]

    @property
    def rank(self) -> int:
        """Axes of the tensor."""
        return sum(stored.axis is not None for stored in self.axes)

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Extents of what is stored of a tensor of `shape`."""
        return tuple(
            stored.brick if stored.axis is None else -(-shape[stored.axis] // stored.brick)
            for stored in self.axes
        )

    @property
    def pack(self) -> Affine:
        """From a box of the tensor to the box of what is stored that holds it."""
        rows: list[tuple[Number, ...]] = []
        for stored in self.axes:
            row: list[Number] = [0] * (self.rank + 1)
            if stored.axis is None:
                row[-1] = stored.brick
            else:
                row[stored.axis] = Fraction(1, stored.brick) if stored.brick > 1 else 1
            rows.append(tuple(row))
        return Affine(tuple(rows), (0,) * len(rows))

    @property
    def unpack(self) -> Affine:
        """From a box of what is stored to the box of the tensor that it holds elements of; whole
        bricks, so not clipped to the tensor."""
        return self._unpack((0,) * self.rank)

    def unpack_whole(self, shape: tuple[int, ...]) -> Affine:
        """As `unpack`, less what the last brick of a tensor of `shape` is filled up with, so that
        the whole comes out whole: 57 channels, not 64.

        This is the form that TVM's compiler takes.  It is right for boxes that end with the tensor,
        and where no brick is filled up; of a box that ends earlier it names too little, as the
        constant is taken off there too.  Source: TVM v0.16, `get_layout_transform_matrices`."""
        bricks = self._bricks()
        return self._unpack(tuple(-(-extent % bricks[axis]) for axis, extent in enumerate(shape)))

    def _unpack(self, constants: tuple[int, ...]) -> Affine:
        rows = (
            (*(s.brick if s.axis == axis else 0 for s in self.axes), constant)
            for axis, constant in enumerate(constants)
        )
        return Affine(tuple(rows), (0,) * len(constants))

    def _bricks(self) -> dict[int, int]:
        """The brick of every axis of the tensor."""
        return {s.axis: s.brick for s in self.axes if s.axis is not None}


NHWC = Layout("NHWC", tuple(map(StoredAxis, range(4))))
NHCWB16 = Layout(
    "NHCWB16",
    (StoredAxis(0), StoredAxis(1), StoredAxis(3, 16), StoredAxis(2), StoredAxis(None, 16)),
)
"""Source: Arm Ethos-U55 technical reference manual, "Supported memory formats for feature maps"."""


def between(affine: Affine, x: Layout, y: Layout, y_shape: tuple[int, ...]) -> Affine:
    """The form of an operator whose input is stored as `x`, and its output, of `y_shape`, as `y`.

    >>> from penstock.ir.affine import Affine
    >>> between(Affine.diagonal((1, 1, 1, 1)), NHWC, NHCWB16, (1, 12, 14, 36)).matrix[3]
    (0, 0, 16, 0, 0, -12)
    """
    return x.pack @ affine @ y.unpack_whole(y_shape)
