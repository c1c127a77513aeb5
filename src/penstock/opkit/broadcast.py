"""Bases of element-wise operators, with inputs that are broadcast by NumPy's rule.

An output element depends on one element of each input.  Operators on plain numbers, int32 or
float32 without quantisation, are a table of arithmetic by element type.  float32 is IEEE 754 single
precision, rounded to nearest even after each operation.  No kernel adds a product, so that
compilers cannot fuse a multiplication and an addition.  int32 wraps around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import numpy as np

from penstock.errors import UnsupportedError
from penstock.fixedpoint import Int64s
from penstock.frozen import frozen
from penstock.ir.affine import Affine
from penstock.ir.foreign import ForeignNode, Made
from penstock.ir.op import (
    Affines,
    Arrays,
    Kernel,
    Op,
    OperatorDefaults,
    Params,
    Regions,
    Site,
    Table,
    Types,
    row_kernel,
)
from penstock.ir.tensor import Array, DType, Region, TensorType, row_count
from penstock.opkit.activation import FINITE, Limits
from penstock.opkit.checks import (
    require,
    require_count,
    require_dtype,
    require_int8,
    require_quantised,
)

RANK = 4
"""Kernels see shapes of this rank, extended in front with axes of extent 1."""


def result_shape(inputs: Types) -> tuple[int, ...]:
    """The shape to which all inputs broadcast.  Raises ModelError if they do not."""
    shapes = tuple(x.shape for x in inputs)
    shape = _broadcast(shapes)
    if len(shape) > RANK:
        raise UnsupportedError(
            "model-022",
            f"inputs are broadcast to shape {list(shape)}, its rank must be at most {RANK}",
            help="reshape to fewer axes in the model",
        )
    # Rows of a matrix run along its first axis, those of an image along the third from the end.
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


@frozen
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
    return tuple(extent < max(extents) for extent in extents)


def int8_result(inputs: Types, role: str) -> TensorType:
    """Output type of an element-wise operator with two int8 inputs."""
    for k, x in enumerate(require_count(inputs, 2, role)):
        require_int8(x, f"input {k}")
    return TensorType(result_shape(inputs), DType.INT8)


def plain_result(inputs: Types, role: str, *dtypes: DType) -> TensorType:
    """Output type of an element-wise operator with two inputs of one of these element types."""
    a, b = require_count(inputs, 2, role)
    require_dtype(a, "input 0", *dtypes)
    require_dtype(b, "input 1", a.dtype)
    return TensorType(result_shape(inputs), a.dtype)


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


def parts(site: Site, inputs: Arrays, out: Region) -> list[Array]:
    """The elements of each input that region `out` reads."""
    return [x[needs(type, out).slices] for x, type in zip(inputs, site.inputs, strict=True)]


def centred(site: Site, inputs: Arrays, out: Region) -> list[Int64s]:
    """Those elements, less the zero point of the input."""
    pairs = zip(parts(site, inputs, out), site.inputs, strict=True)
    return [part.astype(np.int64) - type.zero_point for part, type in pairs]


def zero_points(site: Site) -> Params:
    """Kernel parameters `zero<k>`: the zero points of the inputs."""
    return tuple((f"zero{k}", x.zero_point) for k, x in enumerate(site.inputs))


def input_scalings(*scalings: tuple[int, int]) -> Params:
    """Kernel parameters `multiplier<k>` and `shift<k>` of the inputs."""
    multipliers = ((f"multiplier{k}", multiplier) for k, (multiplier, _) in enumerate(scalings))
    return (*multipliers, *((f"shift{k}", shift) for k, (_, shift) in enumerate(scalings)))


def in_place(site: Site) -> tuple[int, ...]:
    """Inputs that are not broadcast and have the output's element size."""
    return tuple(
        k
        for k, x in enumerate(site.inputs)
        if x.shape == site.output.shape
        and x.dtype.size_bytes == site.output.dtype.size_bytes
        and site.constants[k] is None
    )


def params(site: Site) -> Params:
    """Kernel parameters: output extents `out_h` .. `out_c`, steps `step<k>_n` .. `_c` of input k.

    Steps count rows along N and H and elements along W and C; they are 0 along broadcast axes.  A
    row is one pixel if each input has all of its elements, or one."""
    _, h, w, c = extended(site.output.shape)
    shapes = [extended(x.shape) for x in site.inputs]
    if all(shape[2:] in ((w, c), (1, 1)) for shape in shapes):
        shapes = [(n, rows, 1, wide * deep) for n, rows, wide, deep in shapes]
        w, c = 1, w * c
    found: list[tuple[str, int]] = [("out_h", h), ("out_w", w), ("out_c", c)]
    for k, (xn, xh, xw, xc) in enumerate(shapes):
        steps = (xh if xn > 1 else 0, int(xh > 1), xc if xw > 1 else 0, int(xc > 1))
        found += [(f"step{k}_{axis}", s) for axis, s in zip("nhwc", steps, strict=True)]
    return tuple(found)


def width(site: Site) -> Params:
    """Kernel parameter `width`: the elements of a row of the output."""
    return (("width", site.output.elements // row_count(site.output.shape)),)


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


@frozen
class Elementwise(OperatorDefaults):
    """Region propagation and work of an element-wise operator."""

    def needs(self, site: Site, out: Region) -> Regions:
        return tuple(needs(x, out) for x in site.inputs)

    def affine(self, site: Site) -> Affines:
        return tuple(affine(x, site.output) for x in site.inputs)

    def exchanged(self, rank: int) -> Self:
        return self

    def cropped(self, site: Site, out: Region) -> Self:
        return self

    def in_place(self, site: Site) -> tuple[int, ...]:
        return in_place(site)


def unary_node(op: Op, node: ForeignNode, dtype: DType = DType.INT8) -> Made:
    """A node that applies `op` to input 0 of a node with output type `dtype`.

    Raises UnsupportedError for another output type."""
    require_output(node, dtype)
    return Made(op, (node.x,), node.y)


def require_output(node: ForeignNode, dtype: DType) -> None:
    """Raises UnsupportedError unless the output has that element type, and a scale if it is
    int8."""
    require_dtype(node.y.type, "output", dtype)
    if dtype is DType.INT8:
        require_quantised(node.y.type, "output")


Function = Callable[..., Array]


@frozen
class Arithmetic:
    """How elements of one type are computed.

    `function`: the result, given one array per input; they broadcast.  `kernel`: the C kernel."""

    function: Function
    kernel: str


def arithmetic(
    name: str,
    *,
    int32: Callable[..., Array] | None = None,
    float32: Callable[..., Array] | None = None,
) -> Mapping[DType, Arithmetic]:
    """The arithmetic of the kernels `name`_s32 and `name`_f32, of those types that are given."""
    given = ((DType.INT32, int32, "s32"), (DType.FLOAT32, float32, "f32"))
    return {
        dtype: Arithmetic(function, f"{name}_{suffix}")
        for dtype, function, suffix in given
        if function is not None
    }


@frozen
class Plain(Elementwise):
    """A function of `INPUTS` elements of one type."""

    INPUTS: ClassVar[int] = 1
    ARITHMETIC: ClassVar[Mapping[DType, Arithmetic]]
    """By element type of inputs and output."""

    def result_type(self, inputs: Types) -> TensorType:
        for k, x in enumerate(require_count(inputs, self.INPUTS, type(self).__name__)):
            allowed = tuple(self.ARITHMETIC) if k == 0 else (inputs[0].dtype,)
            require_dtype(x, f"input {k}", *allowed)
        shape = inputs[0].shape if self.INPUTS == 1 else result_shape(inputs)
        return TensorType(shape, inputs[0].dtype)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        found = parts(site, inputs, out)
        with np.errstate(all="ignore"):
            return np.asarray(self.arithmetic(site).function(*found), site.output.dtype.value)

    def kernel(self, site: Site) -> Kernel:
        found = width(site) if self.INPUTS == 1 else params(site)
        return row_kernel(self.arithmetic(site).kernel, found)

    def arithmetic(self, site: Site) -> Arithmetic:
        """The arithmetic for the element type of a node."""
        return self.ARITHMETIC[site.output.dtype]


@frozen
class Clamped(Plain):
    """A function of two elements, with a clamp of its result."""

    limits: Limits = FINITE

    INPUTS = 2

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        return self.limits.applied(Plain.evaluate(self, site, inputs, out))

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            self.arithmetic(site).kernel,
            params(site),
            bounds=Table.of(self.limits.array(site.output.dtype)),
        )
