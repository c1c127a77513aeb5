"""accumulate: a reduction to one row becomes one that adds up rows as they come, and a last step.

Case: an operator that reads an image of several rows and makes one row of them (`halves`), where
the image is computed row by row and for this operator alone, so that its rows may die once they
have been added; and what is kept is at most half of the image, so that it pays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import row_count
from penstock.ops.average_pool2d import AveragePool2D
from penstock.ops.max_pool2d import MaxPool2D
from penstock.ops.mean import Mean
from penstock.ops.running import Halves
from penstock.ops.sum import Sum

REDUCTIONS = (AveragePool2D, MaxPool2D, Mean, Sum)


def accumulate(graph: Graph) -> Graph:
    """The graph with reductions in two halves, where that may save memory."""
    seen = _Seen.of(graph)
    return graph.with_nodes(tuple(made for node in graph.nodes for made in _split(node, seen)))


@dataclass(frozen=True, slots=True)
class _Seen:
    """Who makes and who reads what."""

    producers: Mapping[str, Node]
    consumers: Mapping[str, tuple[Node, ...]]
    outputs: frozenset[str]

    @staticmethod
    def of(graph: Graph) -> _Seen:
        names = frozenset(value.name for value in graph.outputs)
        return _Seen(graph.producers(), graph.consumers(), names)

    def for_one(self, value: Value) -> bool:
        """Whether a value is computed, row by row, for a single reader."""
        maker = self.producers.get(value.name)
        if maker is None or value.name in self.outputs or len(self.consumers[value.name]) > 1:
            return False
        return maker.op.kernel(maker.site).by_rows


def _split(node: Node, seen: _Seen) -> Iterator[Node]:
    """The node, or its two halves."""
    halves = node.op.halves(node.site) if isinstance(node.op, REDUCTIONS) else None
    if halves is None or not seen.for_one(node.inputs[0]) or not _pays(node.inputs[0], halves):
        yield node
        return
    total = Value(f"{node.name}/running", halves.total)
    yield Node(halves.running, node.inputs, total, node.origin)
    yield Node(halves.last, (total,), node.output, node.origin)


def _pays(image: Value, halves: Halves) -> bool:
    """Whether there are several rows, and one of the total has at most half the image's bytes."""
    rows = row_count(halves.total.shape)
    return rows > 1 and 2 * halves.total.size_bytes // rows <= image.type.size_bytes
