"""The shape of a tensor as the network has it, whatever the layout in which it is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ops.pad import Pad


def producers(graph: Graph) -> Mapping[str, Node]:
    """By name of a value, the node that computes it; inside composites, too."""
    return {node.output.name: node for node in _every_node(graph.nodes)}


def _every_node(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node.op, Composite):  # after it: its last node computes the same value
            yield from _every_node(node.op.nodes)


def logical_shape(value: Value, producers: Mapping[str, Node]) -> tuple[int, ...]:
    """The value's shape; of one that is stored in channel blocks, that of the image in them,
    without the channels that fill up the last block."""
    blocks, node = value.type.layout, producers.get(value.name)
    if blocks is None or node is None:
        return value.type.shape
    image = node.inputs[0]
    before = producers.get(image.name)
    if before is None or not isinstance(before.op, Pad):
        return image.type.shape
    whole = before.inputs[0].type.shape
    filled = -(-whole[-1] // blocks.size) * blocks.size
    return whole if (*whole[:-1], filled) == image.type.shape else image.type.shape
