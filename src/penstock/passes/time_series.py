"""Time series: how the tensors of a network depend on the frames of its input.

The frames of the input are its rows along the time axis.  A network with a window of T frames is
applied to the last T frames again and again, each time `hop` frames later.  A tensor of it is a
`TimeSeries` if its rows only move from one application to the next: row r, one hop later,
is the present row r + hop / stride.  Such a row is computed once.  Any other tensor that depends on
the input is computed anew, as in the network with the window.

An operator continues a series if its output has an axis along which, for all rows r,

1. row r needs rows [r * s + o, r * s + o + k) of each variable input, s > 0, and else the same
   region for all r;
2. none of these rows is padding;
3. constants are the same for all r.

Recurrent operators do not.  All this is derived from `Op.needs`, not from the kind of operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from penstock.errors import ModelError, UnsupportedError
from penstock.frozen import frozen
from penstock.ir.graph import (
    Graph,
    GraphWriter,
    Node,
    Value,
    Values,
    computes,
    result_of,
)
from penstock.ir.op import Op
from penstock.ir.tensor import Data, Interval, Region, TensorType
from penstock.opkit.broadcast import Elementwise
from penstock.ops.axis_extremes import ReduceMax, ReduceMin
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice
from penstock.ops.sums import Mean, Sum

# Moves the time axis of series to the row axis.
#
# Rings hold rows of tensors of shape (1, T, W, C), so that time must be axis 1.  Converters put the
# frames of one-dimensional layers into columns, (1, 1, T, C), or into tensors of rank 3, (1, T, C),
# and reshape between the two.  The bytes are the same in all these shapes.  Each series is brought
# into the shape of rows:
#
# 1. Convolutions and pools over columns, with a single row, slide over rows. 2. Element-wise
# operators, concatenations of channels, slices and reductions run on the other shape. 3. Views from
# one such shape to another disappear. 4. All other operators read a view in the old shape.


ROWS, COLUMNS, CHANNELS = 1, 2, 3  # The axes of a tensor whose rows are time steps; its rank is 4.


def time_rows(graph: Graph, axes: Mapping[str, int]) -> Graph:
    """Return the graph whose series have time as axis 1 of 4.

    axes: by the name of a series, its time axis.  The inputs and outputs keep their shapes."""
    return _Writer(graph, axes).graph()


def row_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...] | None:
    """The shape of rows of a series; None if its frames do not follow each other in memory.

    >>> row_shape((1, 1, 49, 10), 2), row_shape((1, 49, 10, 8), 1), row_shape((1, 8, 49), 2)
    ((1, 49, 1, 10), (1, 49, 10, 8), None)
    """
    if prod(shape[:axis]) != 1:
        return None
    if axis == len(shape) - 1:
        return (1, shape[axis], 1, 1)
    return (1, shape[axis], prod(shape[axis + 1 : -1]), shape[-1])


@dataclass(slots=True)
class _Writer(GraphWriter):
    """Writes the nodes of the graph.

    rows: each series in the shape of rows, by name.
    """

    axes: Mapping[str, int]
    rows: dict[str, Value] = field(default_factory=dict[str, Value])
    views: dict[str, Value] = field(default_factory=dict[str, Value])

    def graph(self) -> Graph:
        """The graph with series in the shape of rows."""
        for value in self.before.inputs:
            self._keep(value)
        for node in self.before.nodes:
            self._write(node)
        for value in self.before.outputs:
            self._original(value)
        return self.before.with_nodes(tuple(self.nodes))

    def _write(self, node: Node) -> None:
        """Write a node, on rows if possible."""
        made = self._on_rows(node)
        if made is None:
            inputs = tuple(self._original(value) for value in node.inputs)
            self.nodes.append(replace(node, inputs=inputs))
            self._keep(node.output)

    def _on_rows(self, node: Node) -> Value | None:
        """The output of a node that has been written for rows; None if it was not written."""
        found = [self.rows.get(value.name) for value in node.inputs]
        if not any(found):
            return None
        shape = self._shape(node.output)
        if isinstance(node.op, Reshape) and found[0] is not None:
            if found[0].shape == shape:
                self.rows[node.name] = found[0]
                return found[0]
            view = Reshape(node.output.shape if shape is None else shape)
            return self._written(node, view, (found[0],), shape)
        axis = next(self.axes[v.name] for v in node.inputs if v.name in self.rows)
        op = _on_rows(node, axis)
        if op is None:
            return None
        inputs = tuple(
            _constant_for_rows(value, op, swapped=op != node.op) if rows is None else rows
            for value, rows in zip(node.inputs, found, strict=True)
        )
        if any(value is None for value in inputs):
            return None
        return self._written(node, op, tuple(v for v in inputs if v is not None), shape)

    def _written(
        self, node: Node, op: Op, inputs: Values, shape: tuple[int, ...] | None
    ) -> Value | None:
        """The output of a node with another operator, if it computes the same elements."""
        try:
            type = result_of(op, inputs)
        except ModelError:
            return None
        if shape is not None and type.shape != shape:
            return None
        if type.elements != node.output.elements:
            return None
        made = self._with_shape(node.output, node.output.type.with_shape(type.shape))
        self.append(op, inputs, made, node.origin)
        self.rows[node.name] = made
        if shape is None:  # no series: readers know its old shape
            self._original(node.output)
            del self.rows[node.name]
        return made

    def _with_shape(self, value: Value, type: TensorType) -> Value:
        """A value with another shape, under its own name if the shape is the same."""
        if type.shape == value.shape:
            return value
        return Value(self.fresh(f"{value.name}/frames"), type)

    def _shape(self, value: Value) -> tuple[int, ...] | None:
        """The shape of rows of a value; None if it is no series."""
        axis = self.axes.get(value.name)
        return None if axis is None else row_shape(value.shape, axis)

    def _keep(self, value: Value) -> None:
        """Add a view in the shape of rows of a value that has been written in its own shape."""
        shape = self._shape(value)
        if shape is None:
            return
        made = self._with_shape(value, value.type.with_shape(shape))
        if made is not value:
            self.append(Reshape(shape), (value,), made, f'rows of "{value.name}"')
        self.rows[value.name], self.views[value.name] = made, value

    def _original(self, value: Value) -> Value:
        """The value in its own shape."""
        rows = self.rows.get(value.name)
        if rows is None or rows == value or value.name in self.views:
            return value
        self.append(Reshape(value.shape), (rows,), value, f'view of "{rows.name}"')
        self.views[value.name] = value
        return value


def _on_rows(node: Node, axis: int) -> Op | None:
    """The operator for inputs in the shape of rows, if it is known to compute the same; `axis` is
    the time axis of its inputs."""
    op, rank = node.op, node.inputs[0].rank
    if isinstance(op, Elementwise):
        return op
    match op:
        case Concatenation(axis=joined) if joined == rank - 1 > axis:
            return Concatenation(CHANNELS)
        case Slice():
            return _slice_for_rows(op, axis)
        case _:
            return _with_other_axes(op, node.inputs[0].shape, axis)


def _slice_for_rows(op: Slice, axis: int) -> Slice | None:
    """The slice of rows; None if it selects along several axes between time and channels."""
    rank = len(op.shape)
    if axis == rank - 1:
        places: tuple[int | None, ...] = (None, axis, None, None)
    elif rank - axis <= 3:
        places = (None, axis, axis + 1 if axis + 1 < rank - 1 else None, rank - 1)
    else:
        return None
    start, shape, step = (
        tuple(default if place is None else found[place] for place in places)
        for default, found in ((0, op.start), (1, op.shape), (1, op.step))
    )
    return Slice(start, shape, step)


def _with_other_axes(op: Op, shape: tuple[int, ...], axis: int) -> Op | None:
    """The operator with windows along rows, or with the axes of a reduction for rows; None if it
    has neither."""
    rank = len(shape)
    if isinstance(op, (Conv2D, DepthwiseConv2D, AveragePool2D, MaxPool2D)):
        swap = (rank, axis) == (4, COLUMNS) and op.rows.size == 1
        swapped = op.exchanged(rank) if swap else op
        return swapped if swap or axis == ROWS else None
    if isinstance(op, (Mean, Sum, ReduceMax, ReduceMin)) and axis < rank - 1:
        middle = frozenset(range(axis + 1, rank - 1))
        reduced = frozenset(a % rank for a in op.axes)
        if reduced & middle not in (frozenset[int](), middle):
            return None
        axes = (ROWS,) * (axis in reduced) + (COLUMNS,) * bool(reduced & middle)
        return replace(op, axes=axes + (CHANNELS,) * (rank - 1 in reduced))
    return None


def _constant_for_rows(value: Value, op: Op, *, swapped: bool) -> Value | None:
    """A constant operand of an operator for rows: the weights of a window over columns are those of
    one over rows; elements along channels stay.  None if it is another operand."""
    if value.data is None:
        return None
    shape = value.shape
    if isinstance(op, Elementwise):
        known = prod(shape[:-1]) == 1
        return _reshaped(value, (1, 1, 1, *shape[-1:]) if shape else shape) if known else None
    if swapped and len(shape) == 4:
        return _reshaped(value, (shape[0], shape[COLUMNS], 1, shape[CHANNELS]))
    return value


def _reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    """A constant in another shape with the same order of elements."""
    assert value.data is not None
    if shape == value.shape or len(shape) == len(value.shape) == 0:
        return value
    type = value.type.with_shape(shape)
    quantised = type.quantisation
    if quantised is not None and quantised.axis is not None and len(shape) != value.rank:
        type = replace(type, quantisation=replace(quantised, axis=len(shape) - 1))
    return Value(f"{value.name}/rows", type, Data(value.data.raw))


MOST_FRAMES = 2**16  # Longest time axis: operators are queried for each of its rows.


@frozen
class TimeSeries:
    """A tensor whose rows move along an axis from hop to hop.

    total: rows of the tensor in the network with the window.
    new: how many rows, the last ones, are computed per hop.
    stride: frames of the input from one row to the next.
    """

    axis: int
    total: int
    new: int
    stride: int

    @property
    def interval(self) -> Interval:
        """The new rows, as rows of the tensor in the network with the window."""
        return self.total - self.new, self.total


@frozen
class RunStep:
    """What is computed of a node per hop.

    op: the operator for these rows.
    series: the output as a series; None if all of it is computed.
    reads: for each input that is a series, the rows that it reads, as rows in the network with the
        window; None for other inputs.
    constants: the inputs; of constants that vary in extent along time, the part that is read.
    """

    node: Node
    op: Op
    series: TimeSeries | None
    reads: tuple[Interval | None, ...]
    inputs: Values


def steps(graph: Graph, series: Mapping[str, TimeSeries], hop: int) -> tuple[RunStep, ...]:
    """What is computed of each node per hop, in order.

    series: the inputs of the graph that are series, by name.

    Raises UnsupportedError if a layer pads the time axis, or if its stride does not divide the
    hop."""
    known = dict(series)
    found: list[RunStep] = []
    for node in graph.nodes:
        step = _step(node, known, hop)
        found.append(step)
        if step.series is not None:
            known[node.name] = step.series
    return tuple(found)


def _step(node: Node, known: Mapping[str, TimeSeries], hop: int) -> RunStep:
    inputs = tuple(known.get(value.name) for value in node.inputs)
    if all(value.name in known for value in node.variable_inputs) and any(inputs):
        for axis, extent in enumerate(node.output.shape):
            step = _continued(node, inputs, axis, hop) if 1 < extent <= MOST_FRAMES else None
            if step is not None:
                return step
        _refuse_padding(node, inputs)
    if isinstance(node.op, Slice) and inputs[0] is not None:
        return _sliced(node, node.op, inputs[0])
    reads = tuple(None if one is None else (0, one.total) for one in inputs)
    return RunStep(node, node.op, None, reads, node.inputs)


def _sliced(node: Node, op: Slice, x: TimeSeries) -> RunStep:
    (region,) = op.needs(node.site, Region.whole(op.shape))
    rows = _along(region, x.axis)
    start = _with(op.start, x.axis, op.start[x.axis] - rows[0])
    return RunStep(node, replace(op, start=start), None, (rows,), node.inputs)


def _continued(
    node: Node, inputs: Sequence[TimeSeries | None], axis: int, hop: int
) -> RunStep | None:
    """The step of a node whose output continues its inputs' series along an axis; None if it does
    not."""
    stride = _stride(node, inputs, axis)
    if stride is None or any(_padding(node, inputs)) or _is_recurrent(node):
        return None
    total = node.output.shape[axis]
    if hop % stride and hop < stride * total:
        raise UnsupportedError(
            "incremental-001",
            f"the hop of {hop} is no multiple of {stride}",
            where=node.origin,
            why=f"the layer computes a row for every {stride} frames of the input",
            help=f"use --incremental with a multiple of {stride}",
        )
    new = min(total, -(-hop // stride))
    series = TimeSeries(axis, total, new, stride)
    whole = Region.whole(node.output.shape)
    regions = node.op.needs(node.site, whole.replace(axis, series.interval))
    reads = tuple(
        None if one is None else _along(region, one.axis)
        for one, region in zip(inputs, regions, strict=True)
    )
    values = tuple(
        value
        if value.data is None or region.empty
        else value.section(region, f"{node.name}/input{k}")
        for k, (value, region) in enumerate(zip(node.inputs, regions, strict=True))
    )
    op = _for_rows(node, series)
    step = RunStep(node, op, series, reads, values)
    return step if _computes(step, inputs) else None


def _stride(node: Node, inputs: Sequence[TimeSeries | None], axis: int) -> int | None:
    """Frames of the input from one row along an axis of the output to the next; None if the rows
    do not depend on rows of the inputs alike (conditions 1 and 3)."""
    whole = Region.whole(node.output.shape)
    rows = [
        node.op.needs(node.site, whole.replace(axis, (r, r + 1)))
        for r in range(node.output.shape[axis])
    ]
    strides = {
        _input_stride(value, one, [regions[k] for regions in rows])
        for k, (value, one) in enumerate(zip(node.inputs, inputs, strict=True))
    } - {0}
    return strides.pop() if len(strides) == 1 else None


def _input_stride(value: Value, series: TimeSeries | None, rows: Sequence[Region]) -> int | None:
    """Frames from one row to the next, given the regions of an input that they need; 0 for a
    constant that is the same for all rows; None if the rows do not depend on the input alike."""
    if series is None:
        return 0 if value.data is not None and _alike(value, rows) else None
    first, second = (_along(region, series.axis) for region in rows[:2])
    step = second[0] - first[0]
    moves = all(
        region == rows[0].replace(series.axis, (first[0] + r * step, first[1] + r * step))
        for r, region in enumerate(rows)
    )
    return step * series.stride if moves and step > 0 and not rows[0].empty else None


def _alike(value: Value, rows: Sequence[Region]) -> bool:
    different = set(rows)
    if len(different) == 1:
        return True
    array = value.array
    first = array[rows[0].slices]
    return all(np.array_equal(array[region.slices], first) for region in different)


def _padding(node: Node, inputs: Sequence[TimeSeries | None]) -> tuple[int, int]:
    before = after = 0
    extents = node.output.shape
    for one, form in zip(inputs, node.op.affine(node.site), strict=True):
        if one is not None:
            lower, upper = _along(form.apply(Region.whole(extents)), one.axis)
            before, after = max(before, -lower), max(after, upper - one.total)
    return before, after


def _refuse_padding(node: Node, inputs: Sequence[TimeSeries | None]) -> None:
    """Raises UnsupportedError if rows of a node differ in how much padding they read."""
    before, after = _padding(node, inputs)
    if (before or after) and _is_local(node, inputs):
        raise UnsupportedError(
            "incremental-002",
            f"{node.kind} pads the time axis",
            where=node.origin,
            why=f"it reads {before} rows before the window and {after} after it, which are "
            "padding; so its rows depend on where the window begins and cannot be kept",
            help="train the network with VALID padding along time, or compile it without "
            "--incremental",
        )


def _is_local(node: Node, inputs: Sequence[TimeSeries | None]) -> bool:
    whole = Region.whole(node.output.shape)
    for axis, extent in enumerate(node.output.shape):
        ends = [whole.replace(axis, (r, r + 1)) for r in {0, extent - 1}]
        regions = [node.op.needs(node.site, end) for end in ends]
        for k, one in enumerate(inputs):
            if one is not None and len({_along(each[k], one.axis) for each in regions}) > 1:
                return True
    return False


def _is_recurrent(node: Node) -> bool:
    return not node.op.ALIAS and node.op.kernel(node.site).recurrent


def _for_rows(node: Node, series: TimeSeries) -> Op:
    """The operator for the new rows: attributes that are shapes have their extents."""
    op, axis = node.op, series.axis
    match op:
        case Reshape():
            return Reshape(_with(op.shape, axis, series.new))
        case Slice():
            return replace(
                op, start=_with(op.start, axis, 0), shape=_with(op.shape, axis, series.new)
            )
        case _:
            return op


def _computes(step: RunStep, inputs: Sequence[TimeSeries | None]) -> bool:
    assert step.series is not None
    types = tuple(
        value.type
        if one is None or read is None
        else value.type.with_shape(_with(value.shape, one.axis, read[1] - read[0]))
        for value, one, read in zip(step.inputs, inputs, step.reads, strict=True)
    )
    return computes(
        step.op, types, _with(step.node.output.shape, step.series.axis, step.series.new)
    )


def _along(region: Region, axis: int) -> Interval:
    return region.lower[axis], region.upper[axis]


def _with(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    """A shape with another extent along an axis."""
    return (*shape[:axis], extent, *shape[axis + 1 :])
