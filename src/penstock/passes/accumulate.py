"""accumulate: a reduction to one row becomes one that takes row by row, and a last step.

Case: an operator that reads an image of several rows and makes one row of them (`halves`), where
the image is computed row by row and for this operator alone, so that its rows may die once they
have been taken; and what is kept is at most half of the image, so that it pays.  A fully connected
layer may read the image through views of other shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.op import row_count
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.reshape import Reshape
from penstock.ops.running import Halves, Halving


def accumulate(graph: Graph) -> Graph:
    """The graph with reductions in two halves, where that may save memory."""
    seen = _Seen.of(graph)
    return graph.with_nodes(tuple(made for node in graph.nodes for made in _split(node, seen)))


@dataclass(frozen=True, slots=True)
class _Seen:
    """Who makes and who reads what; which names are taken."""

    producers: Mapping[str, Node]
    consumers: Mapping[str, tuple[Node, ...]]
    outputs: frozenset[str]
    names: frozenset[str]

    @staticmethod
    def of(graph: Graph) -> _Seen:
        outputs = frozenset(value.name for value in graph.outputs)
        return _Seen(graph.producers(), graph.consumers(), outputs, graph.names())

    def maker_for_one(self, value: Value) -> Node | None:
        """Who computes a value for a single reader."""
        alone = value.name not in self.outputs and len(self.consumers[value.name]) == 1
        return self.producers.get(value.name) if alone else None

    def by_rows_for_one(self, value: Value) -> bool:
        """Whether a value is computed row by row for a single reader."""
        maker = self.maker_for_one(value)
        return maker is not None and not maker.op.ALIAS and maker.op.kernel(maker.site).by_rows

    def image(self, value: Value) -> Value:
        """The value of which a value is a view, where nobody else reads either."""
        maker = self.maker_for_one(value)
        if maker is None or not maker.op.ALIAS:
            return value
        source = maker.inputs[0]
        return self.image(source) if source.type.quantisation == value.type.quantisation else value


def _split(node: Node, seen: _Seen) -> Iterator[Node]:
    """The node, or its two halves."""
    if isinstance(node.op, Halving):
        through_views = isinstance(node.op, FullyConnected)
        image = seen.image(node.inputs[0]) if through_views else node.inputs[0]
        direct = replace(node, inputs=(image, *node.inputs[1:]))
        halves = node.op.halves(direct.site)
        if halves is not None and seen.by_rows_for_one(image) and _pays(image, halves):
            yield from _halved(direct, halves, seen.names)
            return
    yield node


def _pays(image: Value, halves: Halves) -> bool:
    """Whether there are several rows, and one of the total has at most half the image's bytes."""
    rows = row_count(halves.total.shape)
    return rows > 1 and 2 * halves.total.size_bytes // rows <= image.type.size_bytes


def _halved(node: Node, halves: Halves, taken: frozenset[str]) -> Iterator[Node]:
    """The two halves, and a view where the output has not the shape of a row."""
    total = Value(free_name(f"{node.name}/running", taken), halves.total)
    yield Node(halves.running, node.inputs, total, node.origin)
    row = halves.last.result_type((halves.total,)).shape
    if row == node.output.type.shape:
        yield Node(halves.last, (total,), node.output, node.origin)
        return
    name = free_name(f"{node.name}/before_reshape", taken)
    last = Value(name, node.output.type.with_shape(row))
    yield Node(halves.last, (total,), last, node.origin)
    yield Node(Reshape(node.output.type.shape), (last,), node.output, node.origin)
