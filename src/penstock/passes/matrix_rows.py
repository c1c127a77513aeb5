"""matrix_rows: computes products of matrices row by row.

A row of a tensor spans its last two axes, so that a product (.., M, K) x (.., K, N) has whole
matrices for rows: all scores of an attention head.  As a product (1, M, 1, K) x (1, 1, K, N) it has
the rows of one M x N matrix for rows.  The pass brings each product of computed matrices into this
form, several matrices (heads) one by one, and with it the operators on their results that have the
form too: those on elements and on vectors along the last axis.  Views, slices and concatenations of
matrices lead into the form and out of it.

This optional pass yields an alternative that the search compares with the original graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from penstock.errors import ModelError
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import Op
from penstock.ir.region import Region
from penstock.ir.tensor import Data
from penstock.opkit.broadcast import Elementwise
from penstock.ops.batch_matmul import BatchMatmul, PlainBatchMatmul
from penstock.ops.concatenation import Concatenation
from penstock.ops.reshape import Reshape
from penstock.ops.row_vectors import RowVectors
from penstock.ops.slice import Slice
from penstock.passes.drop_dead import drop_dead

ROWS = 1  # The axis of rows in the form of rank 4.
MOST_MATRICES = 16  # Each has nodes of its own, which the search divides into cascades.

Matrices = tuple[Value, ...]
"""The matrices of a value one by one, or the only one, which all others are paired with."""


def matrix_rows(graph: Graph) -> Graph | None:
    """Return the graph whose products of matrices have rows of one row of a matrix each.

    None if it has no such product of more than one row."""
    written = _Writer(graph)
    return drop_dead(written.graph()) if any(map(_is_product, graph.nodes)) else None


def _is_product(node: Node) -> bool:
    """Whether the rows of a product are computed from rows of its first input."""
    is_product = isinstance(node.op, BatchMatmul | PlainBatchMatmul) and not node.op.a_transposed
    return is_product and node.output.type.shape[-2] > 1 and _count(node.output) <= MOST_MATRICES


def _count(value: Value) -> int:
    """The number of matrices of a value."""
    return prod(value.type.shape[:-2])


@dataclass(slots=True)
class _Writer:
    """Writes the nodes of the graph.

    rows: the matrices of values that are written in the form, by the name of the value.
    written: names of the values that exist in their own shape.
    """

    before: Graph
    nodes: list[Node] = field(default_factory=list[Node])
    rows: dict[str, Matrices] = field(default_factory=dict[str, Matrices])
    written: set[str] = field(default_factory=set[str])
    taken: set[str] = field(default_factory=set[str])

    def graph(self) -> Graph:
        self.taken = set(self.before.names())
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
        if _is_product(node):
            inputs = self._factors(node)
        elif self._continues(node):
            inputs = tuple(self._operand(value, node.output) for value in node.inputs)
        else:
            return False
        known = tuple(matrices for matrices in inputs if matrices)
        if len(known) < len(inputs):
            return False
        count, shape = _count(node.output), (1, node.output.type.shape[-2], 1)
        matrices = tuple(zip(*(m if len(m) == count else m * count for m in known), strict=True))
        if not _computes(node.op, matrices[0], (*shape, node.output.type.shape[-1])):
            return False
        self.rows[node.name] = tuple(self._made(node, inputs) for inputs in matrices)
        return True

    def _continues(self, node: Node) -> bool:
        """Whether a node computes rows of matrices that are written as such."""
        return (
            isinstance(node.op, Elementwise | RowVectors)
            and node.output.type.rank > 1
            and _count(node.output) <= MOST_MATRICES
            and any(value.name in self.rows for value in node.inputs)
        )

    def _made(self, node: Node, inputs: Matrices) -> Value:
        shape = (1, node.output.type.shape[-2], 1, node.output.type.shape[-1])
        made = self._named(node.output, shape)
        self.nodes.append(Node(node.op, inputs, made, node.origin))
        return made

    def _factors(self, node: Node) -> tuple[Matrices, ...]:
        """The matrices of the operands of a product, and its bias; none where they are broadcast
        along some axes only."""
        a, b, *bias = node.inputs
        if not {_count(a), _count(b)} <= {1, _count(node.output)}:
            return ((),)
        matrices = (1, _count(b), *b.type.shape[-2:])
        return (self._operand(a, a), self._parts(b, matrices), *((c,) for c in bias))

    def _operand(self, value: Value, y: Value) -> Matrices:
        """An operand of matrices like `y`; none if it has no such form."""
        if value.name in self.rows:
            return self.rows[value.name] if value.type.shape == y.type.shape else ()
        shape, rows = value.type.shape, y.type.shape[-2]
        if prod(shape[:-1]) == 1:
            return (self._shaped(value, (1, 1, 1, *shape[-1:])),) if shape else (value,)
        if shape[-2:-1] != (rows,) or _count(value) not in (1, _count(y)):
            return ()
        return self._parts(value, (1, _count(value) * rows, 1, shape[-1]), rows)

    def _parts(self, value: Value, shape: tuple[int, ...], rows: int = 1) -> Matrices:
        """A value under a shape, in parts of so many rows."""
        source = self._shaped(value, shape)
        return tuple(self._part(source, first, rows) for first in range(0, shape[ROWS], rows))

    def _part(self, source: Value, first: int, rows: int) -> Value:
        if source.type.shape[ROWS] == rows:
            return source
        shape, start = (1, rows, *source.type.shape[2:]), (0, first, 0, 0)
        part = self._named(source, shape)
        if source.data is not None:
            region = Region.whole(source.type.shape).replace(ROWS, (first, first + rows))
            return source.section(region, part.name)
        op = Slice(start, shape, (1, 1, 1, 1))
        self.nodes.append(Node(op, (source,), part, f'rows of "{source.name}"'))
        return part

    def _named(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A new value of another shape."""
        name = free_name(f"{value.name}/rows", self.taken)
        self.taken.add(name)
        return Value(name, value.type.with_shape(shape))

    def _shaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A view of a value, or a constant of another shape."""
        source = self._own_shape(value)
        if value.type.shape == shape:
            return source
        made = self._named(value, shape)
        if value.data is not None:
            return replace(made, data=Data(value.data.raw))
        self.nodes.append(Node(Reshape(shape), (source,), made, f'rows of "{value.name}"'))
        return made

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
            _, rows, _, columns = whole.type.shape
            whole = self._named(value, (1, len(matrices) * rows, 1, columns))
            yield Node(Concatenation(ROWS), matrices, whole, origin)
        yield Node(Reshape(value.type.shape), (whole,), value, origin)


def _computes(op: Op, inputs: Matrices, shape: tuple[int, ...]) -> bool:
    """Whether an operator on these inputs has an output of that shape."""
    try:
        return op.result_type(tuple(value.type for value in inputs)).shape == shape
    except ModelError:
        return False
