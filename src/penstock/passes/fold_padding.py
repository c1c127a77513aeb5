"""fold_padding: a border of zero points around the input of a convolution becomes its own padding.

Case: Pad adds rows and columns only, filled with its input's zero point, in its input's
quantisation; then every convolution that reads it reads the input of Pad instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.ir.graph import Graph, Node
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.pad import Pad
from penstock.ops.window import Window


def fold_padding(graph: Graph) -> Graph:
    """The graph with borders folded into convolutions; the Pad nodes stay until they are dead."""
    pads = {node.output.name: node for node in graph.nodes if _is_border(node)}
    return graph.with_nodes(tuple(_folded(node, pads) for node in graph.nodes))


def _is_border(node: Node) -> bool:
    """Whether the node adds rows and columns of its input's zero point, and nothing else."""
    if not isinstance(node.op, Pad) or node.inputs[0].type.rank != 4:
        return False
    x, y = node.inputs[0].type, node.output.type
    outside = (node.op.before[0], node.op.after[0], node.op.before[3], node.op.after[3])
    return not any(outside) and x.quantisation == y.quantisation and node.op.fill == x.zero_point


def _folded(node: Node, pads: Mapping[str, Node]) -> Node:
    pad = pads.get(node.inputs[0].name) if node.inputs else None
    if pad is None or not isinstance(pad.op, Pad):
        return node
    if not isinstance(node.op, Conv2D | DepthwiseConv2D):
        return node
    rows = _wider(node.op.rows, pad.op, 1)
    columns = _wider(node.op.columns, pad.op, 2)
    op = replace(node.op, rows=rows, columns=columns)
    return replace(node, op=op, inputs=(pad.inputs[0], *node.inputs[1:]))


def _wider(window: Window, pad: Pad, axis: int) -> Window:
    before, after = pad.before[axis], pad.after[axis]
    return replace(window, before=window.before + before, after=window.after + after)
