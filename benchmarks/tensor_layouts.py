"""Tensor layouts of TVM's cascader: a permutation of axes, some of them split into blocks.

    NHCWB16   a tensor (N, H, W, C) stored as (N, H, blocks of C, W, 16); the last block is padded

The maps from a box of the tensor to the box in memory and back are affine.  A layout on either side
of an operator is therefore one more factor of a product of affine maps (TVM RFC 0037).

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
    """An axis in memory: axis `axis` of the tensor in steps of `block` elements, or, if `axis` is
    None, the `block` elements within a step."""

    axis: int | None
    block: int = 1


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout; each axis of the tensor is the axis of exactly one `StoredAxis`."""

    name: str
    axes: tuple[StoredAxis, ...]

    @property
    def rank(self) -> int:
        """Number of axes of the tensor."""
        return sum(stored.axis is not None for stored in self.axes)

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Extents in memory of a tensor of `shape`."""
        return tuple(
            stored.block if stored.axis is None else -(-shape[stored.axis] // stored.block)
            for stored in self.axes
        )

    @property
    def pack(self) -> Affine:
        """The map from a box of the tensor to the box in memory that contains it."""
        rows: list[tuple[Number, ...]] = []
        for stored in self.axes:
            row: list[Number] = [0] * (self.rank + 1)
            if stored.axis is None:
                row[-1] = stored.block
            else:
                row[stored.axis] = Fraction(1, stored.block) if stored.block > 1 else 1
            rows.append(tuple(row))
        return Affine(tuple(rows), (0,) * len(rows))

    @property
    def unpack(self) -> Affine:
        """The map from a box in memory to the box of the tensor whose elements it contains.

        Blocks are whole, so that the result is not clipped to the tensor."""
        return self._unpack((0,) * self.rank)

    def unpack_whole(self, shape: tuple[int, ...]) -> Affine:
        """`unpack` without the padding of the last block of a tensor of `shape`.

        The map of the whole tensor is exact: 57 channels, not 64.  TVM's compiler uses this form.
        It is too small for a box that ends before the last block, since the padding is subtracted
        there, too.  Source: TVM v0.16, `get_layout_transform_matrices`."""
        blocks = self._blocks()
        return self._unpack(tuple(-(-extent % blocks[axis]) for axis, extent in enumerate(shape)))

    def _unpack(self, constants: tuple[int, ...]) -> Affine:
        rows = (
            (*(s.block if s.axis == axis else 0 for s in self.axes), constant)
            for axis, constant in enumerate(constants)
        )
        return Affine(tuple(rows), (0,) * len(constants))

    def _blocks(self) -> dict[int, int]:
        """The block size of each axis of the tensor."""
        return {s.axis: s.block for s in self.axes if s.axis is not None}


NHWC = Layout("NHWC", tuple(map(StoredAxis, range(4))))
NHCWB16 = Layout(
    "NHCWB16",
    (StoredAxis(0), StoredAxis(1), StoredAxis(3, 16), StoredAxis(2), StoredAxis(None, 16)),
)
"""Source: Arm Ethos-U55 technical reference manual, "Supported memory formats for feature maps"."""


def between(affine: Affine, x: Layout, y: Layout, y_shape: tuple[int, ...]) -> Affine:
    """The map of an operator with input layout `x`, output layout `y` and output shape `y_shape`.

    >>> from penstock.ir.affine import Affine
    >>> between(Affine.diagonal((1, 1, 1, 1)), NHWC, NHCWB16, (1, 12, 14, 36)).matrix[3]
    (0, 0, 16, 0, 0, -12)
    """
    return x.pack @ affine @ y.unpack_whole(y_shape)
