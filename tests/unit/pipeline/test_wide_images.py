"""Images of millions of columns are planned without a record for each column."""

from __future__ import annotations

import tracemalloc

import pytest

from benchmarks.small_tensors import Operand, bias, int8, weights
from penstock import api
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.pool import AveragePool2D
from penstock.ops.transpose_conv import Spread, TransposeConv
from penstock.ops.unary import Relu
from strategies import node_of

COLUMNS = 2**22
MOST_BYTES = 2**25
"""Less than 8 bytes for each column; the compiler's own tables are far smaller."""
ONE, THREE = Window(1), Window(3, 1, 1, 1, 1)
LAYERS: dict[str, tuple[Op, tuple[Operand, ...]]] = {
    "element-wise": (Relu(), ()),
    "convolution": (Conv2D(ONE, THREE), (weights(1, 1, 3, 1), bias(1))),
    "depthwise": (DepthwiseConv2D(ONE, THREE), (weights(1, 1, 3, 1, axis=3), bias(1))),
    "average": (AveragePool2D(ONE, THREE), ()),
    "transposed": (
        TransposeConv(Spread(1, 1), Spread(2 * COLUMNS, 2, 2)),
        (weights(1, 1, 2, 1), bias(1)),
    ),
}


def peak_bytes(graph: Graph) -> int:
    """The most memory that Python and NumPy hold while a network is compiled."""
    api.compile(LITTLE, "host")  # so that imports and machine code do not count
    tracemalloc.start()
    try:
        api.compile(graph, "host")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def layer(columns: int, *found: str, height: int = 1) -> Graph:
    """Layers, one after the other, on an image of some columns."""
    x = Value("x", int8(1, height, columns, 1))
    nodes: list[Node] = []
    for k, name in enumerate(found):
        op, constants = LAYERS[name]
        y = nodes[-1].output if nodes else x
        like = x.type if isinstance(op, AveragePool2D) else None
        nodes.append(node_of(f"y{k}", op, (y,), *constants, like=like))
    return Graph("wide", (x,), (nodes[-1].output,), tuple(nodes))


LITTLE = layer(4, "element-wise", "convolution", height=2)


@pytest.mark.parametrize("name", LAYERS)
def test_no_table_has_an_entry_for_each_column(name: str) -> None:
    assert peak_bytes(layer(COLUMNS, name)) < MOST_BYTES


def test_cascades_of_wide_images_are_planned_by_rows() -> None:
    assert peak_bytes(layer(COLUMNS, "element-wise", "convolution", height=4)) < MOST_BYTES
