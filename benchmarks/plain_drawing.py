"""PlainDrawing: a random graph of tensors of any element type, without calibration."""

from __future__ import annotations

from random import Random

import numpy as np

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.ir.tensor import Array, Data, DType, Quantisation, TensorType
from penstock.ir.verify import verify

CHANNELS = (1, 2, 3, 5, 8, 12, 16, 24, 33, 48)
SIDES = (1, 2, 3, 4, 5, 7, 8, 10, 13, 20)
LEAST_ELEMENTS, MOST_ELEMENTS = 64, 2048
"""Of an input of a layer; there are two at most."""
EIGHTH = Quantisation((1 / 8,), (-3,))
"""Of int8 inputs."""


class PlainDrawing:
    """A random graph, built node by node; what no node reads is an output."""

    def __init__(self, name: str, seed: int) -> None:
        self.random = Random(f"{name} {seed}")
        self._name = f"{name.replace(' ', '_')}_{seed}"
        self._inputs: list[Value] = []
        self._nodes: list[Node] = []

    def shape(self) -> tuple[int, ...]:
        """(1, H, W, C), sometimes (H, C)."""
        while True:
            height, width = self.random.choice(SIDES), self.random.choice(SIDES)
            rank_two = self.random.random() < 0.2
            outer = (height * width,) if rank_two else (1, height, width)
            shape = (*outer, self.random.choice(CHANNELS))
            if LEAST_ELEMENTS <= np.prod(shape) <= MOST_ELEMENTS:
                return shape

    def input(
        self, dtype: DType, shape: tuple[int, ...] = (), quantisation: Quantisation | None = None
    ) -> Value:
        """An input, of a random shape unless one is given."""
        type = TensorType(shape or self.shape(), dtype, quantisation)
        self._inputs.append(Value(f"input_{len(self._inputs)}", type))
        return self._inputs[-1]

    def constant(self, elements: Array, quantisation: Quantisation | None = None) -> Value:
        """A constant; its element type is that of the array."""
        type = TensorType(elements.shape, DType(elements.dtype.name), quantisation)
        return Value(f"constant_{self.random.getrandbits(64)}", type, Data.of(elements))

    def apply(self, op: Op, *inputs: Value, quantisation: Quantisation | None = None) -> Value:
        """The output of a new node."""
        result = op.result_type(tuple(value.type for value in inputs))
        type = TensorType(result.shape, result.dtype, quantisation)
        output = Value(f"{op.kind.lower()}_{len(self._nodes)}", type)
        self._nodes.append(Node(op, inputs, output))
        return output

    def graph(self) -> Graph:
        """The graph of all nodes."""
        read = {value.name for node in self._nodes for value in node.inputs}
        outputs = tuple(node.output for node in self._nodes if node.name not in read)
        graph = Graph(self._name, tuple(self._inputs), outputs, tuple(self._nodes))
        verify(graph)
        return graph
