"""matrix_rows: computes products of matrices row by row.

A row of a tensor spans its last two axes, so that a product (.., M, K) x (.., K, N) has whole
matrices for rows: all scores of an attention head.  As a product (1, M, 1, K) x (1, 1, K, N) it has
the rows of one M x N matrix for rows.  The pass brings each product of computed matrices into this
form, several matrices (heads) one by one; and fully connected layers on several vectors (tokens),
those in int8 as pointwise convolutions, whose kernels compute rows.  The operators on their results
follow, if they have the form too: those on elements and on vectors along the last axis.  Views,
slices and concatenations of matrices lead into the form and out of it.

This optional pass yields an alternative that the search compares with the original graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from penstock.choices import Rounding
from penstock.frozen import frozen
from penstock.ir.graph import Graph, GraphWriter, Node, Value, Values, computes
from penstock.ir.op import Op
from penstock.ir.tensor import Data, DType, Region
from penstock.opkit.axes import RowVectors
from penstock.opkit.broadcast import Elementwise
from penstock.opkit.sliding import Window
from penstock.ops.batch_matmul import BatchMatmul, PlainBatchMatmul
from penstock.ops.concatenation import Concatenation
from penstock.ops.convolutions import Conv2D
from penstock.ops.fully_connected import FullyConnected, PlainFullyConnected
from penstock.ops.gather import Gather
from penstock.ops.reshape import Reshape
from penstock.ops.slice import along
from penstock.passes.cleaning import drop_dead

ROWS = 1  # The axis of rows in the form of rank 4.
MOST_MATRICES = 16  # Each has nodes of its own, which the search divides into cascades.

Matrices = Values
"""The matrices of a value one by one, or the only one, which all others are paired with."""


def matrix_rows(graph: Graph) -> Graph | None:
    """Return the graph whose products of matrices have rows of one row of a matrix each.

    None if it has no such product of more than one row."""
    written = _Writer(graph)
    found = any(_is_product(node) or _layer_on_rows(node) for node in graph.nodes)
    return drop_dead(written.graph()) if found else None


def _is_product(node: Node) -> bool:
    """Whether the rows of a product are computed from rows of its first input."""
    is_product = isinstance(node.op, BatchMatmul | PlainBatchMatmul) and not node.op.a_transposed
    return is_product and node.output.shape[-2] > 1 and _count(node.output) <= MOST_MATRICES


def _layer_on_rows(node: Node) -> Conv2D | PlainFullyConnected | None:
    """The operator that computes a fully connected layer on several vectors in rows; None for other
    nodes.  Kernels of int8 layers compute all vectors at once, unless they are convolutions."""
    if not isinstance(node.op, FullyConnected | PlainFullyConnected):
        return None
    x, w, b = node.inputs
    is_constant = w.data is not None and b.data is not None and w.dtype is not DType.INT16
    if not is_constant or x.shape[-1] != w.shape[1] or prod(x.shape[:-1]) == 1:
        return None
    if isinstance(node.op, PlainFullyConnected):
        return replace(node.op, keep_dimensions=True)
    is_double = node.op.rounding is Rounding.DOUBLE
    layer = Conv2D(Window(1), Window(1), node.op.activation, node.op.stated)
    return layer if is_double else None


def _picks_vectors(node: Node) -> bool:
    """Whether a node gathers one of several vectors in each image of a single row, such as the
    queries among queries, keys and values that one layer has computed."""
    shape = node.inputs[0].shape if node.inputs else ()
    is_single = isinstance(node.op, Gather) and (node.op.axis, len(node.op.indices)) == (2, 1)
    return is_single and len(shape) == 4 and shape[0] > shape[1] == 1


def _count(value: Value) -> int:
    """The number of matrices of an operand of a product."""
    return prod(value.shape[:-2])


@frozen
class _Form:
    """How the vectors along the last axis of a value are rows of matrices: those along its last
    longer axis `axis`."""

    axis: int
    count: int
    rows: int
    columns: int

    @staticmethod
    def of(value: Value) -> _Form:
        shape = value.shape or (1,)
        longer = [axis for axis, extent in enumerate(shape[:-1]) if extent > 1]
        axis = longer[-1] if longer else 0
        rows = shape[axis] if longer else 1
        return _Form(axis, prod(shape[:axis]), rows, shape[-1])

    @property
    def as_one(self) -> _Form:
        """All vectors as rows of one matrix."""
        return _Form(0, 1, self.count * self.rows, self.columns)

    def count_of(self, value: Value, y: Value) -> int | None:
        """The number of matrices of an operand that is broadcast to `y`, of this form; None if its
        matrices have not as many rows, or are broadcast along some axes only."""
        shape = (1,) * (y.rank - value.rank) + value.shape
        if shape[self.axis] != self.rows:
            return None
        return {self.count: self.count, 1: 1}.get(prod(shape[: self.axis]))


@dataclass(slots=True)
class _Writer(GraphWriter):
    """Writes the nodes of the graph.

    rows: the matrices of values that are written in the form, by the name of the value.
    written: names of the values that exist in their own shape.
    """

    rows: dict[str, Matrices] = field(default_factory=dict[str, Matrices])
    written: set[str] = field(default_factory=set[str])

    def graph(self) -> Graph:
        self.written = {value.name for value in self.before.inputs}
        for node in self.before.nodes:
            if not self._by_rows(node):
                inputs = tuple(map(self._own_shape, node.inputs))
                self.nodes.append(replace(node, inputs=inputs))
                self.written.add(node.name)
        for value in self.before.results:
            self._own_shape(value)
        return self.before.with_nodes(tuple(self.nodes))

    def _by_rows(self, node: Node) -> bool:
        """Writes a node for rows of matrices; returns whether it has that form."""
        layer, form = _layer_on_rows(node), _Form.of(node.output)
        op = layer or node.op
        if _is_product(node):
            inputs = self._factors(node)
        elif layer is not None:
            form = form.as_one
            inputs = self._layer(node, form.rows)
        elif _picks_vectors(node):
            form, extents = form.as_one, node.inputs[0].shape[-2:]
            inputs = ((self._shaped(node.inputs[0], (1, form.rows, *extents)),),)
        elif self._continues(node, form):
            inputs = tuple(self._operand(value, node.output, form) for value in node.inputs)
        else:
            return False
        if not all(inputs):
            return False
        every = tuple(m if len(m) == form.count else m * form.count for m in inputs)
        matrices, shape = tuple(zip(*every, strict=True)), (1, form.rows, 1, form.columns)
        if not computes(op, (v.type for v in matrices[0]), shape):
            return False
        self.rows[node.name] = tuple(self._made(node, op, one, shape) for one in matrices)
        return True

    def _continues(self, node: Node, form: _Form) -> bool:
        """Whether a node computes rows of matrices that are written as such."""
        return (
            isinstance(node.op, Elementwise | RowVectors)
            and form.rows > 1
            and form.count <= MOST_MATRICES
            and any(value.name in self.rows for value in node.inputs)
        )

    def _made(self, node: Node, op: Op, inputs: Matrices, shape: tuple[int, ...]) -> Value:
        return self.append(op, inputs, self._named(node.output, shape), node.origin)

    def _factors(self, node: Node) -> tuple[Matrices, ...]:
        """The matrices of the operands of a product, and its bias; none where they are broadcast
        along some axes only."""
        a, b, *bias = node.inputs
        if not {_count(a), _count(b)} <= {1, _count(node.output)}:
            return ((),)
        matrices = (1, _count(b), *b.shape[-2:])
        return (self._operand(a, a, _Form.of(a)), self._parts(b, matrices), *((c,) for c in bias))

    def _layer(self, node: Node, rows: int) -> tuple[Matrices, ...]:
        """The input of a fully connected layer as one matrix, and its constants."""
        x, w, bias = node.inputs
        outputs, depth = w.shape
        shape = (1, rows, 1, depth)
        known = self.rows.get(x.name, ())
        whole = known if len(known) == 1 else (self._shaped(x, shape),)
        is_real = isinstance(node.op, PlainFullyConnected)
        weights = w if is_real else self._shaped(w, (outputs, 1, 1, depth))
        return whole, (weights,), (bias,)

    def _operand(self, value: Value, y: Value, form: _Form) -> Matrices:
        """An operand of matrices like `y`; none if it has no such form."""
        if value.name in self.rows:
            known = self.rows[value.name]
            is_alike = value.shape == y.shape and len(known) == form.count
            return known if is_alike else ()
        shape = value.shape
        if prod(shape[:-1]) == 1:
            return (self._shaped(value, (1, 1, 1, *shape[-1:])),) if shape else (value,)
        count = form.count_of(value, y)
        if count is None:
            return ()
        return self._parts(value, (1, count * form.rows, 1, shape[-1]), form.rows)

    def _parts(self, value: Value, shape: tuple[int, ...], rows: int = 1) -> Matrices:
        """A value under a shape, in parts of so many rows."""
        source = self._shaped(value, shape)
        return tuple(self._part(source, first, rows) for first in range(0, shape[ROWS], rows))

    def _part(self, source: Value, first: int, rows: int) -> Value:
        if source.shape[ROWS] == rows:
            return source
        part = self._named(source, (1, rows, *source.shape[2:]))
        if source.data is not None:
            region = Region.whole(source.shape).replace(ROWS, (first, first + rows))
            return source.section(region, part.name)
        op = along(source.shape, ROWS, first, rows)
        return self.append(op, (source,), part, f'rows of "{source.name}"')

    def _named(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A new value of another shape."""
        return value.shaped(self.fresh(f"{value.name}/rows"), shape)

    def _shaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A view of a value, or a constant of another shape."""
        source = self._own_shape(value)
        if value.shape == shape:
            return source
        made = self._named(value, shape)
        if value.data is not None:
            return replace(made, data=Data(value.data.raw))
        return self.append(Reshape(shape), (source,), made, f'rows of "{value.name}"')

    def _own_shape(self, value: Value) -> Value:
        """The value in its own shape."""
        if value.name in self.rows and value.name not in self.written:
            self.nodes += self._joined(value, self.rows[value.name])
            self.written.add(value.name)
        return value

    def _joined(self, value: Value, matrices: Matrices) -> Iterator[Node]:
        """Nodes that make a value of its matrices."""
        whole, *others = matrices
        origin = f'matrices of "{value.name}"'
        if others:
            _, rows, _, columns = whole.shape
            whole = self._named(value, (1, len(matrices) * rows, 1, columns))
            yield Node(Concatenation(ROWS), matrices, whole, origin)
        yield Node(Reshape(value.shape), (whole,), value, origin)
