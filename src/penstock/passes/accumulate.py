"""accumulate: splits a reduction to one row into a running total and a last step.

The running total takes its input row by row, so that a scheduler may free each row once it has been
added.  Conditions:

1. The operator reduces an image of several rows to one row and supports the split (`Halving`).
2. The image is computed row by row, and this operator is its only reader.
3. A row of totals takes at most half the bytes of the image; otherwise nothing is saved.

The window of a queue, or a section of it, stays in a ring, which only kernels that work by rows can
read.  A reduction of it is split if its own kernel does not work by rows; conditions 2 and 3 do not
apply.  A fully connected layer may read the image through aliases of other shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from penstock.frozen import frozen
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.tensor import row_count
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.reshape import Reshape
from penstock.ops.running import Halves, Halving


def accumulate(graph: Graph) -> Graph:
    """Returns the graph with reductions split where that may save memory."""
    seen = _Seen.of(graph)
    return graph.with_nodes(tuple(made for node in graph.nodes for made in _split(node, seen)))


@frozen
class _Seen:
    """Producers, consumers, outputs, names and windows of queues of a graph."""

    producers: Mapping[str, Node]
    consumers: Mapping[str, tuple[Node, ...]]
    outputs: frozenset[str]
    names: frozenset[str]
    windows: frozenset[str]

    @staticmethod
    def of(graph: Graph) -> _Seen:
        outputs = frozenset(value.name for value in graph.results)
        windows = frozenset(value.name for queue in graph.queues for value in queue.views)
        return _Seen(graph.producers(), graph.consumers(), outputs, graph.names(), windows)

    def maker_for_one(self, value: Value) -> Node | None:
        """The node that computes a value, or None where the value has several readers."""
        alone = value.name not in self.outputs and len(self.consumers[value.name]) == 1
        return self.producers.get(value.name) if alone else None

    def by_rows_for_one(self, value: Value) -> bool:
        maker = self.maker_for_one(value)
        return maker is not None and not maker.op.ALIAS and maker.op.kernel(maker.site).by_rows

    def image(self, value: Value) -> Value:
        maker = self.maker_for_one(value)
        if maker is None or not maker.op.ALIAS:
            return value
        source = maker.inputs[0]
        return self.image(source) if source.quantisation == value.quantisation else value


def _split(node: Node, seen: _Seen) -> Iterator[Node]:
    if isinstance(node.op, Halving):
        through_views = isinstance(node.op, FullyConnected)
        image = seen.image(node.inputs[0]) if through_views else node.inputs[0]
        direct = replace(node, inputs=(image, *node.inputs[1:]))
        halves = node.op.halves(direct.site)
        if image.name in seen.windows:
            splits = image != node.inputs[0] or not node.op.kernel(node.site).by_rows
        else:
            splits = seen.by_rows_for_one(image) and halves is not None and _pays(image, halves)
        if halves is not None and splits:
            yield from _halved(direct, halves, seen.names)
            return
    yield node


def _pays(image: Value, halves: Halves) -> bool:
    """Whether the image has several rows, and a row of totals at most half of its bytes."""
    rows = row_count(halves.total.shape)
    return rows > 1 and 2 * halves.total.size_bytes // rows <= image.type.size_bytes


def _halved(node: Node, halves: Halves, taken: frozenset[str]) -> Iterator[Node]:
    """The running total and the last step, with a Reshape where the output is not one row."""
    total = Value(free_name(f"{node.name}/running", taken), halves.total)
    yield Node(halves.running, node.inputs, total, node.origin)
    row = halves.last.result_type((halves.total,)).shape
    if row == node.output.shape:
        yield Node(halves.last, (total,), node.output, node.origin)
        return
    name = free_name(f"{node.name}/before_reshape", taken)
    last = Value(name, node.output.type.with_shape(row))
    yield Node(halves.last, (total,), last, node.origin)
    yield Node(Reshape(node.output.shape), (last,), node.output, node.origin)
