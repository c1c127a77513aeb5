"""Reduction: shared by operators that reduce whole axes.

x  up to rank 4; neighbouring axes of more are first merged, where all or none are reduced, after
   those that are reduced have become the last where necessary
y  x with extent 1 along `axes`; a reshape follows where the model drops the axes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Self

from penstock.frozen import frozen
from penstock.ir.exchange import exchanged_axis
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Op, Params, Site, Types, Work
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit import broadcast
from penstock.opkit.axes import FollowingAxes, Sources
from penstock.opkit.checks import constant_axes, require, require_count, require_int8
from penstock.opkit.nodes import onnx_form, reshaped, with_shape
from penstock.ops.transpose import Transpose

Axes = tuple[int, ...]


class Reduction(FollowingAxes):
    """Base of operators that reduce whole axes of one input."""

    __slots__ = ()

    @property
    def reduced_axes(self) -> Axes:
        """The axes that get extent 1."""
        raise NotImplementedError

    def reduced_type(
        self, inputs: Types, dtype: DType, plain: tuple[DType, ...] = ()
    ) -> TensorType:
        """Output type of `dtype`, given an input that is int8 or of the types `plain`.

        Raises ModelError or UnsupportedError."""
        (x,), axes = require_count(inputs, 1, "reduction"), self.reduced_axes
        if x.dtype not in plain:
            require_int8(x, "input")
        require(
            x.rank <= broadcast.RANK, f"input has rank {x.rank}, must be at most {broadcast.RANK}"
        )
        require(
            len(set(axes)) == len(axes) and all(0 <= axis < x.rank for axis in axes),
            f"axes are {list(axes)}, must be distinct and within [0, {x.rank})",
        )
        return TensorType(reduced(x.shape, axes), dtype)

    def sources(self, site: Site) -> tuple[Sources, ...]:
        axes = range(site.output.rank)
        return (tuple(None if axis in self.reduced_axes else axis for axis in axes),)

    def in_order(self, site: Site, inputs: Arrays, out: Region) -> Array:
        """The elements that region `out` reads, those of each output along the last axis in the
        order of their indices."""
        (read,) = self.needs(site, out)
        x, axes = inputs[0][read.slices], sorted(self.reduced_axes)
        kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
        return x.transpose(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), -1)

    def work(self, site: Site, out: Region) -> Work:
        return Work(0, out.elements * self.count(site))

    def count(self, site: Site) -> int:
        """Number of input elements per output element."""
        return math.prod(site.x.shape[axis] for axis in self.reduced_axes)

    def params(self, site: Site) -> Params:
        """Kernel parameters: input extents `in_h` .. `in_c`, and along each axis the number of
        elements per output element, `span_n` .. `span_c`."""
        x = broadcast.extended(site.x.shape)
        y = broadcast.extended(site.output.shape)
        spans = tuple(extent // outputs for extent, outputs in zip(x, y, strict=True))
        return (
            *((f"in_{axis}", extent) for axis, extent in zip("hwc", x[1:], strict=True)),
            *((f"span_{axis}", span) for axis, span in zip("nhwc", spans, strict=True)),
        )


@frozen
class AlongAxes(Reduction):
    """A reduction whose result does not depend on the order of elements."""

    axes: tuple[int, ...]

    @property
    def reduced_axes(self) -> Axes:
        return self.axes

    def exchanged(self, rank: int) -> Self:
        return replace(self, axes=tuple(sorted(exchanged_axis(axis, rank) for axis in self.axes)))


def reduced(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """The shape with extent 1 along the axes."""
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))


def understood(node: ForeignNode, make: Callable[[Axes], Op]) -> Iterator[Made]:
    """Nodes of a TFLite reduction along the axes in input 1; a reshape drops axes.

    Raises UnsupportedError if the input has too many axes that are reduced in turn."""
    x, y = node.x, node.y
    if x.dtype is not DType.BOOL:
        require_int8(y.type, "output")
    axes = constant_axes(node)
    if x.rank > broadcast.RANK:
        x, axes, views = _viewed(node, axes)
        yield from views
    yield from with_shape(make(axes), (x,), reduced(x.shape, axes), y)


def onnx_form_of(node: ForeignNode, name: str) -> OnnxNode:
    """A TFLite reduction of real numbers as the ONNX node of that name."""
    axes = constant_axes(node)
    return onnx_form(node, name, node.x, axes=axes, noop_with_empty_axes=1)


def onnx_nodes(node: OnnxNode, make: Callable[[OnnxNode, Axes], Nodes]) -> Iterator[Made]:
    """Nodes of an ONNX reduction: those that `make` returns for the node and its axes.

    Where the input has more than 4 axes, neighbouring ones are merged, before and after."""
    axes = onnx_axes(node)
    if node.x.rank <= broadcast.RANK:
        yield from make(node, axes)
        return
    x, merged, views = _viewed(node, axes)
    yield from views
    y = replace(node.y, name=f"{node.y.name}/merged")
    steps = [*make(replace(node, inputs=(x, *node.inputs[1:]), outputs=(y,)), merged)]
    yield from steps
    shape = reduced(node.x.shape, axes)
    _, made = reshaped(steps[-1].output, shape, node.y.name)
    yield from made


def _viewed(node: ForeignNode, axes: Axes) -> tuple[Value, Axes, tuple[Made, ...]]:
    """The input of a reduction with neighbouring axes merged, its reduced axes, and the nodes.

    Reduced axes become the last where too many axes would be left."""
    x, ordered = node.x, tuple[Made, ...]()
    shape, merged = _merged(x.shape, axes)
    if len(shape) > broadcast.RANK:
        order = (*(a for a in range(x.rank) if a not in axes), *axes)
        type = x.type.with_shape(tuple(x.shape[a] for a in order))
        ordered = (Made(Transpose(order), (x,), Value(f"{node.y.name}/ordered", type)),)
        x, axes = ordered[0].output, tuple(range(x.rank - len(axes), x.rank))
        shape, merged = _merged(x.shape, axes)
    viewed, made = reshaped(x, shape, f"{node.y.name}/input")
    return viewed, merged, (*ordered, *made)


def _merged(shape: tuple[int, ...], axes: Axes) -> tuple[tuple[int, ...], Axes]:
    """The shape with neighbouring axes merged where all or none are reduced, and its reduced axes.

    >>> _merged((1, 12, 10, 2, 3), (1, 2, 4))
    ((1, 120, 2, 3), (1, 3))
    """
    every = enumerate(shape)
    groups = [(k, [n for _, n in group]) for k, group in groupby(every, lambda a: a[0] in axes)]
    merged = tuple(math.prod(extents) for _, extents in groups)
    return merged, tuple(k for k, (is_reduced, _) in enumerate(groups) if is_reduced)


def onnx_axes(node: OnnxNode) -> Axes:
    """Axes of an ONNX reduction: listed ones, or by default all.  The front end drops axes."""
    found = node.listed("axes", 1) or ()
    every = () if node.integer("noop_with_empty_axes") else tuple(range(len(node.order)))
    return tuple(sorted({node.axis(axis) for axis in found} or every))
