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
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import ModelError, UnsupportedError
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.ir.region import Interval, Region
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice

MOST_FRAMES = 2**16
"""Longest time axis: operators are queried for each of its rows."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    inputs: tuple[Value, ...]


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
    """What is computed of a node per hop."""
    inputs = tuple(known.get(value.name) for value in node.inputs)
    if all(value.name in known for value in node.variable_inputs) and any(inputs):
        for axis, extent in enumerate(node.output.type.shape):
            step = _continued(node, inputs, axis, hop) if 1 < extent <= MOST_FRAMES else None
            if step is not None:
                return step
        _refuse_padding(node, inputs)
    if isinstance(node.op, Slice) and inputs[0] is not None:
        return _sliced(node, node.op, inputs[0])
    reads = tuple(None if one is None else (0, one.total) for one in inputs)
    return RunStep(node, node.op, None, reads, node.inputs)


def _sliced(node: Node, op: Slice, x: TimeSeries) -> RunStep:
    """The step of a slice of some rows of a series: no other rows are kept for it."""
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
    if stride is None or _padded(node, inputs) or _is_recurrent(node):
        return None
    total = node.output.type.shape[axis]
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
    whole = Region.whole(node.output.type.shape)
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
    whole = Region.whole(node.output.type.shape)
    rows = [
        node.op.needs(node.site, whole.replace(axis, (r, r + 1)))
        for r in range(node.output.type.shape[axis])
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
    """Whether regions of a constant have the same elements."""
    assert value.data is not None
    different = set(rows)
    if len(different) == 1:
        return True
    array = value.data.array(value.type)
    first = array[rows[0].slices]
    return all(np.array_equal(array[region.slices], first) for region in different)


def _padded(node: Node, inputs: Sequence[TimeSeries | None]) -> bool:
    """Whether a node reads rows beyond the ends of a series."""
    return any(_padding(node, inputs))


def _padding(node: Node, inputs: Sequence[TimeSeries | None]) -> tuple[int, int]:
    """How many rows before and after the series a node reads, at most."""
    before = after = 0
    extents = node.output.type.shape
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
    """Whether rows of the output, along some axis, need different rows of a series."""
    whole = Region.whole(node.output.type.shape)
    for axis, extent in enumerate(node.output.type.shape):
        ends = [whole.replace(axis, (r, r + 1)) for r in {0, extent - 1}]
        regions = [node.op.needs(node.site, end) for end in ends]
        for k, one in enumerate(inputs):
            if one is not None and len({_along(each[k], one.axis) for each in regions}) > 1:
                return True
    return False


def _is_recurrent(node: Node) -> bool:
    """Whether an output row depends on the one before it."""
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
    """Whether the operator of a step computes the new rows from the rows that it reads."""
    assert step.series is not None
    types = tuple(
        value.type
        if one is None or read is None
        else value.type.with_shape(_with(value.type.shape, one.axis, read[1] - read[0]))
        for value, one, read in zip(step.inputs, inputs, step.reads, strict=True)
    )
    try:
        found = step.op.result_type(types)
    except ModelError:
        return False
    return found.shape == _with(step.node.output.type.shape, step.series.axis, step.series.new)


def _along(region: Region, axis: int) -> Interval:
    """The interval of a region along an axis."""
    return region.lower[axis], region.upper[axis]


def _with(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    """A shape with another extent along an axis."""
    return (*shape[:axis], extent, *shape[axis + 1 :])
