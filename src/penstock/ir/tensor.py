"""TensorType: shape, element type and quantisation of a tensor; Region: a box of its indices; rows.

A quantised tensor represents real numbers: real = scale * (element - zero_point).  There is one
scale for the whole tensor or one per index of an axis (TFLite quantisation specification).
"""

from __future__ import annotations

import math
from enum import Enum
from operator import le, sub
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.brief import Brief
from penstock.frozen import frozen

Array = NDArray[Any]
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


# Rank of an image, (N, H, W, C), and the axes of its rows and columns.
IMAGE_RANK, ROWS, COLUMNS = 4, 1, 2


def row_axis(rank: int) -> int:
    """The axis of rows.  A row spans the last two axes if the rank is at least 3, else the last.

    Axes before it are flattened into the row index: (N, H, W, C) has N x H rows of W x C.
    """
    return max(0, rank - (3 if rank >= 3 else 2))


def row_before(out: Region) -> Region:
    """The row before a region, with the same other intervals; empty before row 0.

    >>> row_before(Region.of((0, 1), (3, 7), (0, 5), (2, 4))).intervals
    ((0, 1), (2, 3), (0, 5), (2, 4))
    """
    axis = row_axis(len(out.lower))
    first = out.lower[axis]
    return out.replace(axis, (max(0, first - 1), first))


# Largest number of rows of a tensor, and of columns that are planned one by one: the scheduler
# queries operators for each of them.
MOST_ROWS = 2**15


def image_rows(shape: tuple[int, ...]) -> int:
    """Number of rows of an image: of all rows with the same indices along the axes before theirs.

    >>> image_rows((4, 49, 10, 8)), image_rows((4, 32)), image_rows((7,))
    (49, 4, 1)
    """
    return shape[row_axis(len(shape))] if len(shape) > 1 else 1


def rows_region(shape: tuple[int, ...], lower: int, upper: int) -> Region:
    """Rows [lower, upper) of a tensor, which are all rows or some of one image.

    >>> rows_region((2, 5, 4, 3), 7, 9).intervals
    ((1, 2), (2, 4), (0, 4), (0, 3))
    """
    region = Region.whole(shape)
    if (lower, upper) == (0, row_count(shape)):
        return region
    axis = row_axis(len(shape))
    images = math.prod(shape[:axis])
    image = min(lower // shape[axis], images - 1)
    first, end = (row - image * shape[axis] for row in (lower, upper))
    assert end <= shape[axis], f"rows {lower} to {upper} of {shape} are of several images"
    region = region.replace(axis, (first, end))
    for outer in reversed(range(axis)):
        image, index = divmod(image, shape[outer])
        region = region.replace(outer, (index, index + 1))
    return region


def row_count(shape: tuple[int, ...]) -> int:
    """Number of rows of a tensor.

    >>> row_count((1, 49, 10, 8)), row_count((4, 32)), row_count((7,))
    (49, 4, 1)
    """
    if len(shape) < 2:
        return 1
    return math.prod(shape[: row_axis(len(shape)) + 1])


class DType(Enum):
    """Element type of a tensor; the value is its name in NumPy."""

    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    FLOAT16 = "float16"
    FLOAT32 = "float32"

    @property
    def size_bytes(self) -> int:
        return np.dtype(self.value).itemsize

    @property
    def is_signed(self) -> bool:
        """Whether the type has negative numbers."""
        return self not in (DType.UINT8, DType.BOOL)

    @property
    def lower(self) -> int:
        """Smallest value of an integer type."""
        return int(np.iinfo(self.value).min)

    @property
    def upper(self) -> int:
        """The largest value of an integer type plus one."""
        return int(np.iinfo(self.value).max) + 1


FILE_TYPES = {one.value: one for one in DType if one is not DType.FLOAT16}
"""Element types of the tensors of model files, by name; those of float16 become float32."""


@frozen
class Quantisation:
    """Scales and zero points: one of each, or one per index along `axis`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    def of_region(self, region: Region) -> Quantisation:
        """The quantisation of a region of the tensor."""
        if self.axis is None:
            return self
        part = region.slices[self.axis]
        return Quantisation(self.scales[part], self.zero_points[part], self.axis)


@frozen
class ChannelBlocks:
    """A memory layout that splits the channels of each row into blocks of `size` channels.

    The blocks of a row are stored one after the other; each holds all W points of the row.  The
    last block is padded.  The shape of such a tensor is the shape in memory:
    (1, H, blocks * W, size)."""

    size: int


@frozen
class TensorType:
    """Shape, element type, quantisation (None: plain numbers) and layout (None: row-major)."""

    shape: tuple[int, ...]
    dtype: DType
    quantisation: Quantisation | None = None
    layout: ChannelBlocks | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.elements * self.dtype.size_bytes

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def scale(self) -> float:
        """The scale of a per-tensor quantised tensor; 1.0 without quantisation."""
        return self.quantisation.scales[0] if self.quantisation else 1.0

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor quantised tensor; 0 without quantisation."""
        return self.quantisation.zero_points[0] if self.quantisation else 0

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The type of a row-major tensor of another shape, otherwise alike."""
        return TensorType(shape, self.dtype, self.quantisation)

    def of_region(self, region: Region) -> TensorType:
        """The type of a region of a row-major tensor."""
        q = self.quantisation
        return TensorType(region.shape, self.dtype, None if q is None else q.of_region(region))

    def real_numbers(self, elements: Array) -> Array:
        """The real numbers that elements of a quantised tensor represent, as float32."""
        zeros, scales = self._steps(elements.ndim)
        return scales * (elements.astype(np.int32) - zeros).astype(np.float32)

    def quantised(self, reals: Array) -> Array:
        """The elements of a quantised tensor that represent real numbers: quotients in single
        precision, rounded half away from zero and saturated.

        Source: TFLite `reference/quantize.h`, AffineQuantize and PerChannelQuantize."""
        zeros, scales = self._steps(reals.ndim)
        quotients = (reals / scales).astype(np.float64)
        steps = np.trunc(quotients + np.copysign(0.5, quotients)) + zeros
        return np.clip(steps, self.dtype.lower, self.dtype.upper - 1).astype(self.dtype.value)

    def _steps(self, rank: int) -> tuple[Array, Array]:
        """Zero points and scales, in shapes that broadcast with tensors of this rank."""
        q = self.quantisation
        assert q is not None
        shape = [1] * rank
        if q.axis is not None:
            shape[q.axis] = -1
        zeros, scales = np.array(q.zero_points, np.int32), np.array(q.scales, np.float32)
        return zeros.reshape(shape), scales.reshape(shape)

    def __str__(self) -> str:
        return f"{self.dtype.value}[{','.join(map(str, self.shape))}]"


@frozen(repr=False)
class Data(Brief):
    """Elements of a constant tensor: row-major, little-endian, immutable and hashable."""

    raw: bytes

    @staticmethod
    def of(array: Array) -> Data:
        return Data(np.ascontiguousarray(array).tobytes())

    def array(self, type: TensorType) -> Array:
        """The elements as a read-only array of `type`'s shape."""
        return np.frombuffer(self.raw, type.dtype.value).reshape(type.shape)
