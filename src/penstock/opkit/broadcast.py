"""Broadcasting of inputs of element-wise operators along axes of extent 1 (NumPy's rule)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import UnsupportedError
from penstock.ir.affine import Affine
from penstock.ir.op import Site, row_count
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit.checks import require, require_int8

RANK = 4
"""Kernels see shapes of this rank, extended in front with axes of extent 1."""


def result_shape(inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
    """The shape to which all inputs broadcast.  Raises ModelError if they do not."""
    shapes = tuple(x.shape for x in inputs)
    shape = _broadcast(shapes)
    if len(shape) > RANK:
        raise UnsupportedError(
            "model-022",
            f"inputs are broadcast to shape {list(shape)}, its rank must be at most {RANK}",
            help="reshape to fewer axes in the model",
        )
    require(
        len(shape) < 3 or all(len(s) != 2 for s in shapes),
        f"an input of rank 2 stretches to shape {list(shape)}, must be reshaped to its rank first",
    )
    return shape


def _broadcast(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The shape to which all shapes broadcast.  Raises ModelError if they do not."""
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        shape = None
    require(
        shape is not None, f"shapes {' and '.join(str(list(s)) for s in shapes)} do not broadcast"
    )
    assert shape is not None
    return tuple(shape)


@dataclass(frozen=True, slots=True)
class MergedAxes:
    """Operands of an element-wise operator, with axes merged until kernels can see them.

    `shapes`: of the operands, of one rank, which is at most `RANK`.
    `repeated`: their shapes before axes are merged: as in the model, or that of the result for
        operands that must first be repeated."""

    shapes: tuple[tuple[int, ...], ...]
    repeated: tuple[tuple[int, ...], ...]


def with_merged_axes(shapes: tuple[tuple[int, ...], ...]) -> MergedAxes:
    """Merges neighbouring axes along which the same operands are broadcast, from the first on.

    Raises ModelError if the shapes do not broadcast.

    >>> with_merged_axes(((2, 3, 4, 5, 6), (4, 1, 1))).shapes
    ((6, 4, 5, 6), (1, 4, 1, 1))
    >>> with_merged_axes(((2, 3, 2, 3, 2), (1, 3, 1, 3, 1))).repeated[1]
    (2, 3, 2, 3, 2)
    """
    whole = _broadcast(shapes)
    merged = _merged(shapes, whole)
    if len(merged[0]) <= RANK:
        return MergedAxes(merged, shapes)
    every = (whole,) * len(shapes)
    return MergedAxes(_merged(every, whole), every)


def _merged(
    shapes: tuple[tuple[int, ...], ...], whole: tuple[int, ...]
) -> tuple[tuple[int, ...], ...]:
    """The shapes, with leading axes of extent 1 up to the rank of the result, and axes merged."""
    extents = [(1,) * (len(whole) - len(shape)) + shape for shape in shapes]
    axes = list(zip(*extents, strict=True))
    k = 0
    while len(axes) > RANK and k < len(axes) - 1:
        first, second = axes[k], axes[k + 1]
        if max(first) == 1 or max(second) == 1 or _stretched(first) == _stretched(second):
            axes[k : k + 2] = [tuple(a * b for a, b in zip(first, second, strict=True))]
        else:
            k += 1
    return tuple(zip(*axes, strict=True))


def _stretched(extents: tuple[int, ...]) -> tuple[bool, ...]:
    """Which operands are broadcast along an axis with these extents."""
    return tuple(extent < max(extents) for extent in extents)


def int8_result(inputs: tuple[TensorType, ...], count: int, role: str) -> TensorType:
    """Output type of an element-wise operator with `count` int8 inputs."""
    require(len(inputs) == count, f"{role} has {len(inputs)} inputs, must have {count}")
    for k, x in enumerate(inputs):
        require_int8(x, f"input {k}")
    return TensorType(result_shape(inputs), DType.INT8)


def needs(x: TensorType, out: Region) -> Region:
    """Region of input `x` that region `out` reads."""
    tail = out.intervals[len(out.lower) - x.rank :]
    pairs = zip(tail, x.shape, strict=True)
    return Region.of(*((0, 1) if extent == 1 else part for part, extent in pairs))


def affine(x: TensorType, out: TensorType) -> Affine:
    """Affine form of `needs`; broadcast axes are constant."""
    rows: list[tuple[int, ...]] = []
    for axis, extent in enumerate(x.shape):
        stretched = extent == 1 and out.shape[axis + out.rank - x.rank] != 1
        row = [0] * (out.rank + 1)
        row[-1 if stretched else axis + out.rank - x.rank] = 1
        rows.append(tuple(row))
    return Affine(tuple(rows), (0,) * x.rank)


def take(x: Array, type: TensorType, out: Region) -> Array:
    """Elements of input `x` that region `out` reads, as int64."""
    return x[needs(type, out).slices].astype(np.int64)


def in_place(site: Site) -> tuple[int, ...]:
    """Inputs that are not broadcast and have the output's element size."""
    return tuple(
        k
        for k, x in enumerate(site.inputs)
        if x.shape == site.output.shape
        and x.dtype.size_bytes == site.output.dtype.size_bytes
        and site.constants[k] is None
    )


def params(site: Site) -> tuple[tuple[str, int], ...]:
    """Kernel parameters: output extents `out_h` .. `out_c`, steps `step<k>_n` .. `_c` of input k.

    Steps count rows along N and H and elements along W and C; they are 0 along broadcast axes."""
    _, h, w, c = extended(site.output.shape)
    found: list[tuple[str, int]] = [("out_h", h), ("out_w", w), ("out_c", c)]
    for k, x in enumerate(site.inputs):
        xn, xh, xw, xc = extended(x.shape)
        steps = (xh if xn > 1 else 0, int(xh > 1), xc if xw > 1 else 0, int(xc > 1))
        found += [(f"step{k}_{axis}", s) for axis, s in zip("nhwc", steps, strict=True)]
    return tuple(found)


def extended(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape extended to rank 4 with axes of extent 1 such that rows are preserved.

    >>> extended((9, 8)), extended((5, 9, 8))
    ((1, 9, 1, 8), (1, 5, 9, 8))
    """
    require(
        len(shape) <= RANK, f"shape {list(shape)} has rank {len(shape)}, must be at most {RANK}"
    )
    if len(shape) >= 3:
        return (1,) * (RANK - len(shape)) + shape
    rows = row_count(shape)
    return (1, rows, 1, shape[-1] if shape else 1)
