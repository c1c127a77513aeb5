"""Folded columns: images with few channels, as many adjacent columns as the stride of their
convolution as one column with the channels of all of them.

An accelerator that stores blocks of channels then stores, reads and multiplies fewer of them.  A
row of pixels is a row of channels already, so the image is only reshaped.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from penstock.backends.offloaded import main_node
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value, free_name
from penstock.ir.tensor import Data
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D
from penstock.ops.reshape import Reshape


def folded_columns(graph: Graph, engine: str, pack: int) -> Graph:
    """Return the graph in which convolutions of an accelerator read folded columns of a network
    input that nothing else reads, where these need fewer blocks of channels.

    engine: the name of the accelerator.
    pack: the number of channels in a block.
    """
    readers, taken = graph.consumers(), graph.names()
    alone = {value.name for value in graph.inputs if len(readers.get(value.name, ())) == 1}
    alone -= {value.name for value in graph.results}
    nodes: list[Node] = []
    for node in graph.nodes:
        folds = isinstance(node.op, Composite) and node.op.engine == engine
        folds = folds and node.inputs[0].name in alone and _saves_blocks(node, pack)
        nodes += _folded(node, taken) if folds else (node,)
    return graph.with_nodes(tuple(nodes))


def _saves_blocks(node: Node, pack: int) -> bool:
    """Whether a composite is a convolution that reads fewer blocks of folded columns."""
    assert isinstance(node.op, Composite)
    x, op = node.inputs[0], main_node(node.op).op
    if len(node.op.nodes) > 1 or not isinstance(op, Conv2D):
        return False
    stride, channels = op.columns.stride, x.shape[3]
    fits = op.columns.dilation == 1 and x.shape[2] % stride == 0
    is_whole = node.inputs[1].shape[3] == channels
    return fits and is_whole and -(-stride * channels // pack) < stride * -(-channels // pack)


def _folded(node: Node, taken: Collection[str]) -> tuple[Node, Node]:
    """The reshaping of the image, and the convolution with weights for its folded columns."""
    assert isinstance(node.op, Composite)
    x, w, *others = node.inputs
    (inner,) = node.op.nodes
    assert isinstance(inner.op, Conv2D)
    n, h, width, channels = x.shape
    old, outputs = inner.op.columns, node.output.shape[2]
    shape = (n, h, width // old.stride, old.stride * channels)
    # Zeros before the first tap move it to the first of the columns that are folded.
    missing = -old.before % old.stride
    size = -(-(missing + old.size) // old.stride)
    before = (old.before + missing) // old.stride
    window = Window(size, before=before, after=outputs - 1 + size - before - shape[2])
    taps = (missing, size * old.stride - missing - old.size)
    assert w.data is not None
    weights = np.pad(w.data.array(w.type), ((0, 0), (0, 0), taps, (0, 0)))
    weights = weights.reshape(*weights.shape[:2], size, shape[3])
    image = Value(free_name(f"{x.name}/columns", taken), x.type.with_shape(shape))
    folded = Value(
        free_name(f"{node.name}/columns", taken), w.type.with_shape(weights.shape), Data.of(weights)
    )
    inputs = (image, folded, *others)
    inner = replace(inner, op=replace(inner.op, columns=window), inputs=inputs)
    op = replace(node.op, nodes=(inner,), inputs=tuple(value.name for value in inputs))
    return Node(Reshape(shape), (x,), image), replace(node, op=op, inputs=inputs)
