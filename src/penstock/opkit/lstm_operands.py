"""The operands of an LSTM node of a TFLite file.

Source: `micro/kernels/lstm_shared.h` (positions of inputs), `lstm_eval.cc` (supported variants).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import ForeignNode
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, Data, DType, Quantisation, TensorType
from penstock.opkit.checks import (
    require,
    require_dtype,
    require_int8,
    require_quantised,
    require_rank,
    require_weights,
)

WEIGHTS, RECURRENT, BIASES = range(1, 5), range(5, 9), range(12, 16)
HIDDEN, CELL = 18, 19
"""Positions of inputs; weights and biases are in the order of `opkit/lstm.py`."""
VARIANTS = {
    "peephole connections": range(9, 12),
    "a projection": range(16, 18),
    "layer normalisation": range(20, 24),
}
"""Positions of the inputs of unsupported variants."""
ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
LEAST_CELL_EXPONENT = -24


@dataclass(frozen=True, slots=True)
class LstmOperands:
    """Sizes and operands of an LSTM layer.

    steps_first: whether the inputs of a step are contiguous: time-major, or one sequence.
    weights (4 * units, inputs), recurrent (4 * units, units), bias (4 * units): of all gates.
    """

    steps: int
    batch: int
    units: int
    steps_first: bool
    hidden: Value
    cell: Value
    weights: Value
    recurrent: Value
    bias: Value


def read(node: ForeignNode) -> LstmOperands:
    """The layer of a node.  Raises UnsupportedError for variants that TensorFlow Lite Micro does
    not support either, and ModelError for inconsistent types."""
    x = node.input(0)
    require_rank(x.type, (3,), "input")
    require_int8(x.type, "input")
    require_int8(node.output().type, "output")
    _require_plain(node)
    first, second, _ = x.type.shape
    time_major = bool(node.integer("time_major"))
    steps, batch = (first, second) if time_major else (second, first)
    hidden, cell = node.state(HIDDEN), node.state(CELL)
    require_int8(hidden.type, "hidden state")
    _require_cell(cell.type)
    weights, recurrent = _gates(node, WEIGHTS, "weights"), _gates(node, RECURRENT, "recurrent")
    units = recurrent.type.shape[1]
    for role, state in (("hidden", hidden), ("cell", cell)):
        require(
            state.type.elements == batch * units,
            f"{role} state has {state.type.elements} elements, must have {batch} x {units}",
        )
    return LstmOperands(
        steps, batch, units, time_major or batch == 1, hidden, cell, weights, recurrent,
        _gates(node, BIASES, "bias"),
    )  # fmt: skip


def _require_plain(node: ForeignNode) -> None:
    """Raises UnsupportedError unless the layer is an LSTM without variations."""
    for variant, positions in VARIANTS.items():
        if any(node.optional(k) is not None for k in positions):
            raise _unsupported(node, f"it has {variant}")
    if node.optional(WEIGHTS[0]) is None:
        raise _unsupported(node, "its input gate is coupled to the forget gate (CIFG)")
    activation = node.choice("fused_activation_function", ACTIVATIONS)
    if activation != "TANH":
        raise _unsupported(node, f"its activation is {activation}")
    if node.integer("diagonal_recurrent_tensors"):
        raise _unsupported(node, "its recurrent weights are diagonal")


def _unsupported(node: ForeignNode, what: str) -> Exception:
    return node.unsupported(
        what,
        help="use a plain LSTM layer with activation tanh and recurrent activation sigmoid; "
        "TensorFlow Lite Micro supports no other",
    )


def _require_cell(cell: TensorType) -> None:
    require_dtype(cell, (DType.INT16,), "cell state")
    require_quantised(cell, "cell state")
    fraction, exponent = math.frexp(cell.scale)
    require(
        fraction == 0.5 and LEAST_CELL_EXPONENT <= exponent - 1 <= 0 and cell.zero_point == 0,
        f"cell state has scale {cell.scale} and zero point {cell.zero_point}, must have a power of "
        f"two from 2**{LEAST_CELL_EXPONENT} to 1 and 0",
    )


def _gates(node: ForeignNode, positions: range, role: str) -> Value:
    """The weights or biases of all gates in one constant, along axis 0, with their scales."""
    values = [node.input(k) for k in positions]
    arrays: list[Array] = [node.constant(k) for k in positions]
    shapes = {array.shape for array in arrays}
    require(len(shapes) == 1, f"{role} of the gates have shapes {sorted(shapes)}, must have one")
    dtypes = {value.type.dtype for value in values}
    require(len(dtypes) == 1, f"{role} of the gates have {len(dtypes)} element types, must have 1")
    require(arrays[0].ndim > 0 and arrays[0].size > 0, f"{role} of the gates are empty")
    joined = np.concatenate(arrays)
    quantisation = None
    if role != "bias":
        require_rank(values[0].type, (2,), role)
        scales = [_weight_scale(value.type, role) for value in values]
        each = tuple(float(scale) for scale in np.repeat(scales, len(arrays[0])))
        quantisation = Quantisation(each, (0,) * len(each), 0)
    type = TensorType(joined.shape, values[0].type.dtype, quantisation)
    return Value(f"{node.output().name}/{role}", type, Data.of(joined))


def _weight_scale(type: TensorType, role: str) -> float:
    require_weights(type, 0)
    assert type.quantisation is not None
    count = len(type.quantisation.scales)
    require(count == 1, f"{role} of a gate have {count} scales, must have one")
    return type.quantisation.scales[0]
