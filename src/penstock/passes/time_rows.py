"""time_rows: moves the time axis of series to the row axis.

Rings hold rows of tensors of shape (1, T, W, C), so that time must be axis 1.  Converters put the
frames of one-dimensional layers into columns, (1, 1, T, C), or into tensors of rank 3, (1, T, C),
and reshape between the two.  The bytes are the same in all these shapes.  Each series is brought
into the shape of rows:

1. Convolutions and pools over columns, with a single row, slide over rows.
2. Element-wise operators, concatenations of channels, slices and reductions run on the other shape.
3. Views from one such shape to another disappear.
4. All other operators read a view in the old shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from penstock.errors import ModelError
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import Op
from penstock.ir.tensor import Data, TensorType
from penstock.opkit.broadcast import Elementwise
from penstock.ops.average_pool2d import AveragePool2D
from penstock.ops.concatenation import Concatenation
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.max_pool2d import MaxPool2D
from penstock.ops.mean import Mean
from penstock.ops.reduce_extreme import ReduceMax, ReduceMin
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice
from penstock.ops.sum import Sum

ROWS, COLUMNS, CHANNELS = 1, 2, 3
"""The axes of a tensor whose rows are time steps; its rank is 4."""


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
class _Writer:
    """Writes the nodes of the graph.

    rows: each series in the shape of rows, by name.
    """

    before: Graph
    axes: Mapping[str, int]
    nodes: list[Node] = field(default_factory=list[Node])
    rows: dict[str, Value] = field(default_factory=dict[str, Value])
    views: dict[str, Value] = field(default_factory=dict[str, Value])
    taken: set[str] = field(default_factory=set[str])

    def graph(self) -> Graph:
        """The graph with series in the shape of rows."""
        self.taken = set(self.before.names())
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
            if found[0].type.shape == shape:
                self.rows[node.name] = found[0]
                return found[0]
            view = Reshape(node.output.type.shape if shape is None else shape)
            return self._written(node, view, (found[0],), shape)
        axis = next(self.axes[v.name] for v in node.inputs if v.name in self.rows)
        op = _for_rows(node, axis)
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
        self, node: Node, op: Op, inputs: tuple[Value, ...], shape: tuple[int, ...] | None
    ) -> Value | None:
        """The output of a node with another operator, if it computes the same elements."""
        try:
            type = op.result_type(tuple(value.type for value in inputs))
        except ModelError:
            return None
        if shape is not None and type.shape != shape:
            return None
        if type.elements != node.output.type.elements:
            return None
        made = self._with_shape(node.output, node.output.type.with_shape(type.shape))
        self.nodes.append(Node(op, inputs, made, node.origin))
        self.rows[node.name] = made
        if shape is None:  # no series: readers know its old shape
            self._original(node.output)
            del self.rows[node.name]
        return made

    def _with_shape(self, value: Value, type: TensorType) -> Value:
        """A value with another shape, under its own name if the shape is the same."""
        if type.shape == value.type.shape:
            return value
        name = free_name(f"{value.name}/frames", self.taken)
        self.taken.add(name)
        return Value(name, type)

    def _shape(self, value: Value) -> tuple[int, ...] | None:
        """The shape of rows of a value; None if it is no series."""
        axis = self.axes.get(value.name)
        return None if axis is None else row_shape(value.type.shape, axis)

    def _keep(self, value: Value) -> None:
        """Add a view in the shape of rows of a value that has been written in its own shape."""
        shape = self._shape(value)
        if shape is None:
            return
        made = self._with_shape(value, value.type.with_shape(shape))
        if made is not value:
            self.nodes.append(Node(Reshape(shape), (value,), made, f'rows of "{value.name}"'))
        self.rows[value.name], self.views[value.name] = made, value

    def _original(self, value: Value) -> Value:
        """The value in its own shape."""
        rows = self.rows.get(value.name)
        if rows is None or rows == value or value.name in self.views:
            return value
        view = Node(Reshape(value.type.shape), (rows,), value, f'view of "{rows.name}"')
        self.nodes.append(view)
        self.views[value.name] = value
        return value


def _for_rows(node: Node, axis: int) -> Op | None:
    """The operator for inputs in the shape of rows, if it is known to compute the same; `axis` is
    the time axis of its inputs."""
    op, rank = node.op, node.inputs[0].type.rank
    if isinstance(op, Elementwise):
        return op
    match op:
        case Concatenation(axis=joined) if joined == rank - 1 > axis:
            return Concatenation(CHANNELS)
        case Slice():
            return _slice_for_rows(op, axis)
        case _:
            return _with_other_axes(op, node.inputs[0].type.shape, axis)


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
    has neither.

    shape: of the input in the model, where its time axis is `axis`."""
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
    one over rows; elements along channels stay.  None if it is another operand.

    swapped: whether the operator's attributes differ from those in the model."""
    if value.data is None:
        return None
    shape = value.type.shape
    if isinstance(op, Elementwise):
        known = prod(shape[:-1]) == 1
        return _reshaped(value, (1, 1, 1, *shape[-1:]) if shape else shape) if known else None
    if swapped and len(shape) == 4:
        return _reshaped(value, (shape[0], shape[COLUMNS], 1, shape[CHANNELS]))
    return value


def _reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    """A constant in another shape with the same order of elements."""
    assert value.data is not None
    if shape == value.type.shape or len(shape) == len(value.type.shape) == 0:
        return value
    type = value.type.with_shape(shape)
    quantised = type.quantisation
    if quantised is not None and quantised.axis is not None and len(shape) != value.type.rank:
        type = replace(type, quantisation=replace(quantised, axis=len(shape) - 1))
    return Value(f"{value.name}/rows", type, Data(value.data.raw))
