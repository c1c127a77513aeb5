"""Recurrent layers of TFLite: long short-term memory (LSTM), in integers or on real numbers.

Sources: TFLite UNIDIRECTIONAL_SEQUENCE_LSTM, `micro/kernels/unidirectional_sequence_lstm.cc`;
`micro/kernels/lstm_shared.h` (positions of inputs), `lstm_eval.cc` (supported variants).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value, Values, result_of
from penstock.ir.op import Arrays, Kernel, Site, Table, Types, row_kernel
from penstock.ir.tensor import Array, DType, Quantisation, Region, TensorType
from penstock.opkit import lstm
from penstock.opkit.activation import UNLIMITED, Limits
from penstock.opkit.checks import (
    require,
    require_count,
    require_dtype,
    require_int8,
    require_quantised,
    require_rank,
    require_weights,
)
from penstock.opkit.lstm import GATES, StepScales, logistic_table
from penstock.opkit.nodes import (
    in_shape_of_output,
    intermediate,
    is_plain_foreign,
    onnx_form,
    reshaped,
)
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.recurrence import LastChannels, Recurrence
from penstock.ops.dynamic_range import steps_of
from penstock.ops.formulas import Term
from penstock.ops.fully_connected import PlainFullyConnected
from penstock.ops.plain_recurrent import PlainLstm
from penstock.ops.reshape import Reshape
from penstock.ops.slice import part
from penstock.ops.transpose import Transpose

WEIGHTS, RECURRENT, PEEPHOLES, BIASES = 1, 5, 9, 12
"""Positions of the first inputs of weights and biases, which are in the order of `opkit/lstm.py`,
and of peephole connections: of the input, forget and output gate."""
HIDDEN, CELL = 18, 19
REAL_GATES, REAL_PEEPHOLES = (0, 3, 1, 2), (0, 2, 1)
"""The order in which `PlainLstm` takes the gates."""
VARIANTS = {
    "a projection": range(16, 18),
    "layer normalisation": range(20, 24),
}
"""Positions of the inputs of unsupported variants."""
LAYER_ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6", "TANH", "SIGN_BIT")
LEAST_CELL_EXPONENT = -24


@frozen
class LstmOperands:
    """Sizes and operands of an LSTM layer.

    steps_first: whether the inputs of a step are contiguous: time-major, or one sequence.
    weights (4 * units, inputs), recurrent (4 * units, units), bias (4 * units): of all gates, in
        the order of the operator that computes the layer.
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


def _read(node: ForeignNode) -> LstmOperands:
    """The layer of a node.  Raises UnsupportedError for variants that TensorFlow Lite Micro does
    not support either, and ModelError for inconsistent types."""
    x = node.x
    require_rank(x.type, "input", 3)
    real = is_plain_foreign(node)
    _require_plain(node, real)
    first, second, _ = x.shape
    time_major = bool(node.integer("time_major"))
    steps, batch = (first, second) if time_major else (second, first)
    hidden, cell = node.state(HIDDEN), node.state(CELL)
    if real:
        for k, each in ((0, x), (HIDDEN, hidden), (CELL, cell)):
            require_dtype(each.type, f"input {k}", DType.FLOAT32)
    else:
        require_int8(x.type, "input")
        require_int8(node.y.type, "output")
        require_int8(hidden.type, "hidden state")
        _require_cell(cell.type)
    order = REAL_GATES if real else range(GATES)
    weights, recurrent, bias = (
        _gates(node, [first + k for k in order], role)
        for first, role in ((WEIGHTS, "weights"), (RECURRENT, "recurrent"), (BIASES, "bias"))
    )
    units = recurrent.shape[1]
    for role, state in (("hidden", hidden), ("cell", cell)):
        require(
            state.elements == batch * units,
            f"{role} state has {state.elements} elements, must have {batch} x {units}",
        )
    return LstmOperands(
        steps, batch, units, time_major or batch == 1, hidden, cell, weights, recurrent, bias
    )


def _require_plain(node: ForeignNode, real: bool) -> None:
    for variant, positions in VARIANTS.items():
        if any(node.optional(k) is not None for k in positions):
            raise _unsupported(node, f"it has {variant}")
    if not real and any(node.optional(PEEPHOLES + k) is not None for k in range(3)):
        raise _unsupported(node, "it has peephole connections")
    if node.optional(WEIGHTS) is None:
        raise _unsupported(node, "its input gate is coupled to the forget gate (CIFG)")
    activation = node.choice("fused_activation_function", LAYER_ACTIVATIONS)
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
    require_dtype(cell, "cell state", DType.INT16)
    require_quantised(cell, "cell state")
    fraction, exponent = math.frexp(cell.scale)
    require(
        fraction == 0.5 and LEAST_CELL_EXPONENT <= exponent - 1 <= 0 and cell.zero_point == 0,
        f"cell state has scale {cell.scale} and zero point {cell.zero_point}, must have a power of "
        f"two from 2**{LEAST_CELL_EXPONENT} to 1 and 0",
    )


def _gates(node: ForeignNode, positions: Sequence[int], role: str) -> Value:
    """The weights or biases of all gates in one constant, along axis 0, with their scales."""
    values = [node.input(k) for k in positions]
    arrays: list[Array] = [node.constant(k) for k in positions]
    shapes = {array.shape for array in arrays}
    require(len(shapes) == 1, f"{role} of the gates have shapes {sorted(shapes)}, must have one")
    dtypes = {value.dtype for value in values}
    require(len(dtypes) == 1, f"{role} of the gates have {len(dtypes)} element types, must have 1")
    require(arrays[0].ndim > 0 and arrays[0].size > 0, f"{role} of the gates are empty")
    joined = np.concatenate(arrays)
    quantisation = None
    if role != "bias":
        require_rank(values[0].type, role, 2)
    if is_plain_foreign(node):
        joined = joined.astype(np.float32)  # int8 steps stay whole numbers
    elif role != "bias":
        scales = [_weight_scale(value.type, role) for value in values]
        each = tuple(float(scale) for scale in np.repeat(scales, len(arrays[0])))
        quantisation = Quantisation(each, (0,) * len(each), 0)
    return Value.constant(f"{node.y.name}/{role}", joined, quantisation)


def _weight_scale(type: TensorType, role: str) -> float:
    require_weights(type, 0)
    assert type.quantisation is not None
    count = len(type.quantisation.scales)
    require(count == 1, f"{role} of a gate have {count} scales, must have one")
    return type.quantisation.scales[0]


@frozen
class LstmHidden(LastChannels):
    """The hidden state in the rows that an LSTM layer computes.

    x  (1, T, B, 2 * U)  int16    row t: cell state, then hidden state after step t (`Lstm`)
    y  (1, T, B, U)      int8     the hidden state"""

    def result_type(self, inputs: Types) -> TensorType:
        require(len(inputs) == 1, f"there are {len(inputs)} inputs, must be 1")
        require_rank(inputs[0], "input", 4)
        require_dtype(inputs[0], "input", DType.INT16)
        *others, channels = inputs[0].shape
        require(channels % 2 == 0, f"input has {channels} channels, must be an even number")
        return TensorType((*others, channels // 2), DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (read,) = self.needs(site, out)
        return inputs[0][read.slices].astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        _, _, batch, units = site.output.shape
        return row_kernel("lstm_hidden_s16", batch=batch, units=units)


UNCLIPPED = 2**15
SWAP = Transpose((0, 2, 1, 3))
"""Exchanges the axes of steps and sequences."""


@frozen
class Lstm(Recurrence):
    """A layer of long short-term memory (LSTM), one output row for each time step.

        x       (1, T, B, I)      int8     row t: the inputs of step t, for each sequence of the
                                           batch
        hidden  (B, U)            int8     the states before step 0
        cell    (B, U)            int16    its scale is a power of two
        w       (4 * U, I)        int8     weights of the gates, in the order of `opkit/lstm.py`
        r       (4 * U, U)        int8     weights of the hidden state
        b       (4 * U)           int32
        y       (1, T, B, 2 * U)  int16    row t: cell state, then hidden state after step t,
                                           computed from row t of x and row t - 1 of y

    `LstmHidden` takes the int8 output of the layer from y.  The last row becomes the state.

    Source: TFLite UNIDIRECTIONAL_SEQUENCE_LSTM,
    `micro/kernels/unidirectional_sequence_lstm.cc`.

    `clip`: the largest magnitude of cell states after each step."""

    clip: int = UNCLIPPED

    TFLITE = ("UNIDIRECTIONAL_SEQUENCE_LSTM",)
    GATES = GATES
    STATES = 2

    def result_type(self, inputs: Types) -> TensorType:
        x, hidden, cell, w, r, b = require_count(inputs, 6, "LSTM")
        require_rank(x, "input", 4)
        require_int8(x, "input")
        require_int8(hidden, "hidden state")
        require_dtype(cell, "cell state", DType.INT16)
        require_dtype(w, "input weights", DType.INT8)
        require_dtype(r, "recurrent weights", DType.INT8)
        require_dtype(b, "bias", DType.INT32)
        one, steps, batch, depth = x.shape
        units = r.shape[-1]
        found = tuple(type.shape for type in (hidden, cell, w, r, b))
        gates = GATES * units
        wanted = ((batch, units), (batch, units), (gates, depth), (gates, units), (gates,))
        require(
            one == 1 and found == wanted,
            f"inputs of an LSTM have shapes {[list(type.shape) for type in inputs]}, which "
            "contradict each other",
        )
        return TensorType((1, steps, batch, 2 * units), DType.INT16)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x, hidden, cell, w, r, b = inputs[:6]
        _, (first, end), columns, channels = out.slices, *out.intervals[1:]
        batch, units = slice(*columns), r.shape[-1]
        h, c = (state[batch].astype(np.int64) for state in (hidden, cell))
        if first > 0:
            before = inputs[-1][0, first - 1, batch].astype(np.int64)
            c, h = before[:, :units], before[:, units:]
        scales = self.scales(site)
        products = _sums(x[0, first:end, batch], scales.input_zero, w) + b.astype(np.int64)
        found = np.empty((1, end - first, len(h), 2 * units), np.int16)
        for row, sums in enumerate(products):
            recurrents = _sums(h, scales.hidden_zero, r)
            c, h = lstm.step(scales, _by_gate(sums), _by_gate(recurrents), c)
            found[0, row] = np.concatenate((c, h), axis=-1)
        return found[..., slice(*channels)]

    def kernel(self, site: Site) -> Kernel:
        _, _, batch, depth = site.x.shape
        scales = self.scales(site)
        return row_kernel(
            "lstm_s8",
            scales.tables(),
            batch=batch,
            in_c=depth,
            units=site.inputs[1].shape[1],
            in_zero=scales.input_zero,
            hidden_zero=scales.hidden_zero,
            integer_bits=scales.integer_bits,
            clip=scales.clip,
            logistic=Table.of(logistic_table()),
            constants=((3, "weights"), (4, "recurrent"), (5, "bias")),
            recurrent=True,
        )

    def scales(self, site: Site) -> StepScales:
        """The constants of a step."""
        x, hidden, cell, w, r, _ = site.inputs
        return lstm.step_scales(x, hidden, cell, w, r, self.clip)


def _sums(x: Array, zero: int, weights: Array) -> Array:
    """Weighted sums of elements less their zero point, exact."""
    return ((x.astype(np.float64) - zero) @ weights.astype(np.float64).T).astype(np.int64)


def _by_gate(sums: Array) -> Array:
    """Sums of all gates (batch, gates * units) as (gates, batch, units)."""
    return np.moveaxis(sums.reshape(len(sums), GATES, -1), 1, 0)


def from_foreign(node: ForeignNode) -> Nodes:
    layer = _read(node)
    prefix = node.y.name
    x, arranged = rows_of_steps(
        node.x, layer.steps, layer.batch, layer.steps_first, f"{prefix}/inputs"
    )
    yield from arranged
    states: list[Value] = []
    for state, label in ((layer.hidden, "hidden"), (layer.cell, "cell")):
        value, reshape = reshaped(state, (layer.batch, layer.units), f"{prefix}/{label}_before")
        yield from reshape
        states.append(value)
    shape = (1, layer.steps, layer.batch, layer.units)
    hidden = Value(f"{prefix}/hidden", node.y.type.with_shape(shape))
    compute = _real_steps if is_plain_foreign(node) else _integer_steps
    made = tuple(compute(node, layer, x, states))
    yield from made
    y = made[-1].output
    yield _hidden_of(y, layer, hidden)
    yield from _sequences(hidden, layer, node.y)
    yield from _last_step(hidden, layer.hidden, layer, HIDDEN)
    yield from _last_step(y, layer.cell, layer, CELL)


def _integer_steps(
    node: ForeignNode, layer: LstmOperands, x: Value, states: Sequence[Value]
) -> Iterator[Made]:
    """The nodes that compute the states after each step, int8 and int16."""
    op = Lstm(_quantised_clip(node.real("cell_clip"), layer.cell.type))
    inputs = (x, *states, layer.weights, layer.recurrent, layer.bias)
    types = tuple(value.type for value in inputs)
    y = Value(f"{node.y.name}/steps", op.result_type(types))
    site = Site(types, y.type, tuple(value.data for value in inputs))
    lstm.require_fit(op.scales(site), site)
    yield Made(op, inputs, y)


def _real_steps(
    node: ForeignNode, layer: LstmOperands, x: Value, states: Sequence[Value]
) -> Iterator[Made]:
    """The nodes that compute the states after each step, as real numbers."""
    name = node.y.name
    weigh = PlainFullyConnected(UNLIMITED, keep_dimensions=True)
    operands = (x, layer.weights, layer.bias)
    type = result_of(weigh, operands)
    weighted = Value(f"{name}/weighted_inputs", type)
    is_symmetric = not node.integer("asymmetric_quantize_inputs")
    if scales := _scales_of_steps(node, WEIGHTS):
        new = RealNodes(replace(onnx_form(node, node.name), outputs=(weighted,)))
        steps, scale = steps_of(Term(new, x), (3,), is_symmetric=is_symmetric)
        none = new.constant(np.zeros(GATES * layer.units), "no_bias")
        sums = steps.to(weigh, layer.weights, none)
        of_rows = new.constant(np.repeat(np.array(scales, np.float32), layer.units), "scales")
        made = new.result((sums * (scale * of_rows) + layer.bias).value)
        yield from in_shape_of_output(replace(node, outputs=(weighted,)), made)
    else:
        yield Made(weigh, operands, weighted)
    peepholes: Values = ()
    if node.optional(PEEPHOLES) is not None:
        peepholes = (_gates(node, [PEEPHOLES + k for k in REAL_PEEPHOLES], "bias"),)
    clip = node.real("cell_clip")
    limits = Limits(-clip, clip) if clip > 0 else UNLIMITED
    op = PlainLstm(bool(peepholes), limits, _scales_of_steps(node, RECURRENT), is_symmetric)
    hidden, cell = states
    inputs = (weighted, cell, hidden, layer.recurrent, *peepholes)
    type = result_of(op, inputs)
    yield Made(op, inputs, Value(f"{name}/steps", type))


def _scales_of_steps(node: ForeignNode, first: int) -> tuple[float, ...]:
    """The scales of int8 weights of a layer on real numbers, in the order of `PlainLstm`; empty if
    they are real numbers."""
    types = [node.input(first + k).type for k in REAL_GATES]
    if any(type.dtype is not DType.INT8 for type in types):
        return ()
    return tuple(_weight_scale(type, "weights") for type in types)


def _hidden_of(rows: Value, layer: LstmOperands, hidden: Value) -> Made:
    """The node that takes the hidden state of each step from the rows that a layer computes."""
    if rows.dtype is not DType.FLOAT32:
        return Made(LstmHidden(), (rows,), hidden)
    return Made(part((0, 0, 0, layer.units), hidden.shape), (rows,), hidden)


def rows_of_steps(
    x: Value, steps: int, batch: int, steps_first: bool, name: str
) -> tuple[Value, tuple[Made, ...]]:
    """The inputs (1, T, B, I), and the nodes that arrange them, which are free if the steps come
    first or there is one sequence."""
    depth = x.shape[2]
    shape = (1, steps, batch, depth)
    if steps_first or batch == 1:
        return reshaped(x, shape, name)
    image, reshape = reshaped(x, (1, batch, steps, depth), f"{name}_by_sequence")
    y = x.shaped(name, shape)
    return y, (*reshape, Made(SWAP, (image,), y))


def _sequences(hidden: Value, layer: LstmOperands, output: Value) -> Nodes:
    """The output of the layer: the hidden state (1, T, B, U), in the order of the file's axes."""
    if not layer.steps_first:
        shape = (1, layer.batch, layer.steps, layer.units)
        swapped = intermediate(output, shape, "by_sequence")
        yield Made(SWAP, (hidden,), swapped)
        hidden = swapped
    yield Made(Reshape(output.shape), (hidden,), output)


def _last_step(rows: Value, state: Value, layer: LstmOperands, k: int) -> Nodes:
    """The new elements of a state, input k: the first channels of the last row."""
    shape = (1, 1, layer.batch, layer.units)
    last = state.shaped(f"{state.name}/last_step", shape)
    yield Made(part((0, layer.steps - 1, 0, 0), shape), (rows,), last)
    after = Value(f"{state.name}/after", state.type)
    yield Made(Reshape(state.shape), (last,), after, assigns=k)


def _quantised_clip(clip: float, cell: TensorType) -> int:
    """The largest magnitude of cell states.

    Source: `CreateLstmCellStateInfo` (`micro/kernels/lstm_eval_common.cc`)."""
    return int(min(clip / cell.scale, UNCLIPPED - 1)) if clip > 0 else UNCLIPPED
