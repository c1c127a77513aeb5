"""The shape of a tensor in the network, independent of the layout in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ops.pad import Pad


def producers(graph: Graph) -> Mapping[str, Node]:
    """Return the node that computes each tensor, by name of the tensor, including nodes in
    composites."""
    return {node.output.name: node for node in _every_node(graph.nodes)}


def _every_node(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node.op, Composite):  # after it: its last node computes the same tensor
            yield from _every_node(node.op.nodes)


def logical_shape(value: Value, producers: Mapping[str, Node]) -> tuple[int, ...]:
    """Return the shape of a tensor without layout.

    For a tensor in channel blocks, that is the shape of the unpacked tensor, without the channels
    that pad the last block.
    """
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
