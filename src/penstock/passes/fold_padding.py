"""fold_padding: turns a Pad before a convolution or MaxPool2D into padding of its windows.

Conditions:

1. Pad adds rows and columns only, and keeps the quantisation.
2. For a convolution, the fill value is the zero point of Pad's input.
3. For MaxPool2D, the fill value is the least value of the element type, and every window covers at
   least one element of the unpadded input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.ir.graph import Graph, Node
from penstock.opkit.sliding import Window
from penstock.ops.conv2d import Conv2D
from penstock.ops.depthwise_conv2d import DepthwiseConv2D
from penstock.ops.pad import Pad
from penstock.ops.pool import MaxPool2D


def fold_padding(graph: Graph) -> Graph:
    """Returns the graph with borders folded into windows; `drop_dead` removes unread Pad nodes."""
    pads = {node.output.name: node for node in graph.nodes if _is_border(node)}
    return graph.with_nodes(tuple(_folded(node, pads) for node in graph.nodes))


def _is_border(node: Node) -> bool:
    if not isinstance(node.op, Pad) or node.inputs[0].rank != 4:
        return False
    x, y = node.inputs[0].type, node.output.type
    outside = (node.op.before[0], node.op.after[0], node.op.before[3], node.op.after[3])
    return not any(outside) and x.quantisation == y.quantisation


def _folded(node: Node, pads: Mapping[str, Node]) -> Node:
    pad = pads.get(node.inputs[0].name) if node.inputs else None
    if pad is None or not isinstance(pad.op, Pad):
        return node
    if not isinstance(node.op, Conv2D | DepthwiseConv2D | MaxPool2D):
        return node
    x = pad.inputs[0].type
    rows, columns = _wider(node.op.rows, pad.op, 1), _wider(node.op.columns, pad.op, 2)
    if isinstance(node.op, MaxPool2D):
        folds = pad.op.fill == x.dtype.lower and all(map(_sees_an_element, (rows, columns)))
    else:
        folds = pad.op.fill == x.zero_point
    if not folds:
        return node
    op = replace(node.op, rows=rows, columns=columns)
    return replace(node, op=op, inputs=(pad.inputs[0], *node.inputs[1:]))


def _sees_an_element(window: Window) -> bool:
    return max(window.before, window.after) < window.extent


def _wider(window: Window, pad: Pad, axis: int) -> Window:
    before, after = pad.before[axis], pad.after[axis]
    return replace(window, before=window.before + before, after=window.after + after)
