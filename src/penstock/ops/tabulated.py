"""Functions of one 8-bit element, computed by a 256-entry table, that passes create.

x  any shape  int8 or uint8
y  as x       int8 or uint8
"""

from __future__ import annotations

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import Nodes
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Op, Site, Types
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, Data, Quantisation, Region, TensorType
from penstock.opkit.checks import require, require_count, require_dtype
from penstock.opkit.lookup import ELEMENTS, Lookup
from penstock.ops.conversions import EIGHT_BITS


@frozen
class ElementTable(Lookup):
    """A function of one int8 variable, given by its 256 results.

        x  any shape  int8
        y  as x       int8     y = results[x + 128]

    The ONNX front end creates it from element-wise operators on real numbers, none of which has
    a quantisation of its own, between a DequantizeLinear and a QuantizeLinear; operators of TFLite
    that have an arithmetic of their own on uint8 are created as one.

    `results`: output elements for the input elements -128 .. 127."""

    results: tuple[int, ...]

    ONNX = onnx(OnnxName(AxisOrder.ALIKE), "ElementTable")

    def result_type(self, inputs: Types) -> TensorType:
        require(
            len(self.results) == 256 and all(-128 <= y < 128 for y in self.results),
            f"the table has {len(self.results)} results, must be 256 of type int8",
        )
        return Lookup.result_type(self, inputs)

    def table(self, x: TensorType, y: TensorType) -> Array:
        return np.array(self.results, np.int8)


def table_of(results: Array) -> ElementTable:
    """The operator with these results, int8 elements of shape (256,)."""
    return ElementTable(tuple(results.tolist()))


def from_onnx(node: OnnxNode) -> Nodes:
    """A table that the front end has made of Deeploy's functions of integers."""
    yield node.made(ElementTable(node.integers("results")), node.x)


@frozen
class Step:
    """An element-wise operator of a chain.

    `number`: its constant operand, if it has one, of 8 bits under `scale` and `zero_point` if there
    is a scale; `number_first`: the constant is input 0."""

    op: Op
    number: float | None = None
    number_first: bool = False
    scale: float | None = None
    zero_point: int = 0


@frozen
class Tabulated(Lookup):
    """A chain of operators on one 8-bit element, computed by a 256-entry table.

        x  any shape  int8 or uint8
        y  as x       int8 or uint8

    Passes create it (`passes/tabulate.py`).  The table holds what the operators compute."""

    steps: tuple[Step, ...]

    def result_type(self, inputs: Types) -> TensorType:
        require_count(inputs, 1, "Tabulated")
        require_dtype(inputs[0], "input", *EIGHT_BITS)
        found = inputs[0]
        for step in self.steps:
            types, _ = _operands(step, found, None)
            found = step.op.result_type(types)
        return found

    def table(self, x: TensorType, y: TensorType) -> Array:
        type = x.with_shape((256,))
        elements = ELEMENTS.astype(np.int8).view(x.dtype.value)
        for step in self.steps:
            types, arrays = _operands(step, type, elements)
            result = step.op.result_type(types)
            if step is self.steps[-1]:
                result = y.with_shape((256,))
            constants = tuple(None if a is elements else Data.of(a) for a in arrays)
            site = Site(types, result, constants)
            type, elements = result, step.op.evaluate(site, arrays, Region.whole((256,)))
        return elements.view(np.int8)


def _operands(step: Step, type: TensorType, elements: Array | None) -> tuple[Types, Arrays]:
    """Types and elements of the inputs of a step, whose variable input is given."""
    types, arrays = (type,), () if elements is None else (elements,)
    if step.number is None:
        return types, arrays
    constant = np.array(step.number, type.dtype.value)
    q = None if step.scale is None else Quantisation((step.scale,), (step.zero_point,))
    types = (*types, TensorType((), type.dtype, q))
    arrays = (*arrays, constant)
    return (types[::-1], arrays[::-1]) if step.number_first else (types, arrays)
