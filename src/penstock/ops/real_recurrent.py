"""Recurrent layers of ONNX on real numbers, LSTM and GRU, one output row for each time step.

    X          (T, B, I)      Y         (T, D, B, U)    D: directions, 1 or 2
    W          (D, gates * U, I)
    R          (D, gates * U, U)
    B          (D, 2 * gates * U)
    initial_h  (D, B, U)      Y_h       (D, B, U)       initial_c and Y_c of LSTM likewise

With layout 1, the batch is the first axis of X, Y and the states, and D follows T in Y.  A layer
becomes one operator for each direction, and operators that arrange its operands and results.

Source: ONNX operator specification, LSTM and GRU; `opkit/recurrence.py` defines the
arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from penstock.frozen import frozen
from penstock.ir.foreign import Made, Nodes
from penstock.ir.graph import Value, Values, result_of
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Params, Site, Table, Types, row_kernel
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, Data, DType, Region, TensorType
from penstock.opkit.activation import UNLIMITED
from penstock.opkit.checks import require, require_dtype, require_rank
from penstock.opkit.float_functions import Floats, logistic, tanh
from penstock.opkit.lookup import LARGEST_STEPS, saturated
from penstock.opkit.onnx_constants import real_numbers, weights_at
from penstock.opkit.recurrence import (
    Gates,
    LastChannels,
    PlainRecurrence,
    RealRecurrence,
    hidden_products,
    hidden_scales,
)
from penstock.ops.concatenation import Concatenation
from penstock.ops.conversions import Dequantize
from penstock.ops.fully_connected import PlainFullyConnected
from penstock.ops.lstm import SWAP, rows_of_steps
from penstock.ops.plain_recurrent import PlainGru, PlainLstm, PlainRnn
from penstock.ops.reshape import Reshape
from penstock.ops.slice import along, backwards, part


@frozen
class RealHidden(LastChannels):
    """The hidden state, quantised, in the rows that a recurrent layer computes.

    x  (1, T, B, n * U)  float32  row t: n states after step t, the hidden state last
    y  (1, T, B, U)      int8     y = zero_y + x / scale_y, rounded half to even

    Source: ONNX operator specification, QuantizeLinear, in single precision.

    `units`: how many channels, the last ones, are taken.  Quotients that overflow saturate, and NaN
    counts as the smallest one."""

    units: int

    def result_type(self, inputs: Types) -> TensorType:
        require(len(inputs) == 1, f"there are {len(inputs)} inputs, must be 1")
        require_rank(inputs[0], "input", 4)
        require_dtype(inputs[0], "input", DType.FLOAT32)
        *others, channels = inputs[0].shape
        require(
            0 < self.units <= channels,
            f"{self.units} channels are taken, must be within [1, {channels}]",
        )
        return TensorType((*others, self.units), DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (read,) = self.needs(site, out)
        with np.errstate(over="ignore", invalid="ignore"):
            quotients = inputs[0][read.slices] / np.float32(site.output.scale)
        # Half to even, as QuantizeLinear rounds.
        steps = np.rint(np.fmin(np.fmax(quotients, -LARGEST_STEPS), LARGEST_STEPS))
        return saturated(steps.astype(np.int64) + site.output.zero_point)

    def kernel(self, site: Site) -> Kernel:
        _, _, batch, channels = site.x.shape
        return row_kernel(
            "hidden_f32_s8",
            batch=batch,
            in_c=channels,
            units=self.units,
            zero_point=site.output.zero_point,
            scale=Table.reals([site.output.scale]),
        )


DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""By the attribute `direction`, whether each direction reads the sequence from its end."""
BIASES, LENGTHS, HIDDEN_INPUT = 3, 4, 5
"""Positions of inputs."""
CELL_OUTPUT = 2


def names(states: int, *names: str) -> Mapping[str, OnnxName]:
    """ONNX names of a layer with `states` states."""
    inputs = tuple(range(HIDDEN_INPUT, HIDDEN_INPUT + states))
    return onnx(OnnxName(AxisOrder.MODEL, real_inputs=inputs, floats=True), *names)


@frozen
class _Layer:
    """A layer of the model.  `backwards`: for each direction, whether it starts at the end;
    `batch_first`: the attribute `layout`."""

    node: OnnxNode
    op: RealRecurrence | PlainRecurrence
    backwards: tuple[bool, ...]
    batch_first: bool
    steps: int
    batch: int
    units: int

    @property
    def name(self) -> str:
        """The name of its first output."""
        return next((v.name for v in self.node.outputs if v.name), "")

    def label(self, direction: int) -> str:
        return self.name if direction == 0 else f"{self.name}/backwards"


def nodes(
    node: OnnxNode, op: RealRecurrence | PlainRecurrence, activations: tuple[str, ...]
) -> Nodes:
    """Nodes that compute a recurrent layer by `op`.

    activations: the supported ones, of one direction."""
    layer = _read(node, op, activations)
    rows: list[Value] = []
    x, arranged = rows_of_steps(
        node.x, layer.steps, layer.batch, not layer.batch_first, f"{layer.name}/inputs"
    )
    yield from arranged
    if isinstance(op, PlainRecurrence) and x.dtype is not DType.FLOAT32:
        real = Value(f"{layer.name}/real_inputs", TensorType(x.shape, DType.FLOAT32))
        yield Made(Dequantize(), (x,), real)
        x = real
    for direction in range(len(layer.backwards)):
        made = tuple(_direction(layer, x, direction))
        rows.append(made[-1].output)
        yield from made
    for k, output in enumerate(node.outputs):
        if output.name:
            yield from _output(layer, rows, k)


def _read(
    node: OnnxNode, op: RealRecurrence | PlainRecurrence, activations: tuple[str, ...]
) -> _Layer:
    """Raises UnsupportedError for variants that no kernel computes, ModelError for inconsistent
    operands."""
    backwards = DIRECTIONS[node.text("direction", "forward", tuple(DIRECTIONS))]
    expected = activations * len(backwards)
    found = node.texts("activations", expected)
    if tuple(map(str.lower, found)) != tuple(map(str.lower, expected)):
        raise node.unsupported(
            f"attribute activations is {list(found)!r:.120}, must be {list(expected)}"
        )
    if "clip" in node.attributes:
        raise node.unsupported(f"attribute clip is {node.real('clip')}, must be absent")
    layout = node.integer("layout")
    require(layout in (0, 1), f"layout is {layout}, must be 0 or 1")
    x, recurrent = node.x.type, node.constant(2)
    require_rank(x, "input", 3)
    require(recurrent.ndim == 3, f"R has shape {list(recurrent.shape)}, must have 3 axes")
    units = recurrent.shape[2]
    said = node.integer("hidden_size", units)
    require(said == units, f"hidden_size is {said}, R is for {units} units")
    most = 1 + op.STATES
    require(
        len(node.outputs) <= most,
        f"there are {len(node.outputs)} outputs, must be at most {most}",
    )
    batch, steps = x.shape[:2] if layout else (x.shape[1], x.shape[0])
    if node.optional(LENGTHS) is not None:
        lengths = node.constant_ints(LENGTHS)
        if set(lengths) != {steps}:
            raise node.unsupported(
                f"sequence_lens is {list(lengths)!r:.60}, must be {steps}, the whole sequence"
            )
    return _Layer(node, op, backwards, bool(layout), steps, batch, units)


def _direction(layer: _Layer, x: Value, d: int) -> Iterator[Made]:
    """The rows of one direction, in the order in which it computes them."""
    if layer.backwards[d]:
        turned = x.shaped(f"{layer.label(d)}/reversed_inputs", x.shape)
        yield Made(backwards(x.shape, 1), (x,), turned)
        x = turned
    states: list[Value] = []
    for k in range(HIDDEN_INPUT + layer.op.STATES - 1, HIDDEN_INPUT - 1, -1):
        arranged = tuple(_initial_state(layer, k, d))
        yield from arranged
        states.append(arranged[-1].output if arranged else _constant_state(layer, k, d))
    if isinstance(layer.op, PlainRecurrence):
        weighted = _weighted_inputs(layer, x, d)
        yield weighted
        r = _real_constant(layer, 2, d, "recurrent")
        inputs = (weighted.output, *states, r, *_extra(layer, layer.op, d))
    else:
        w, r = (weights_at(layer.node, k, d) for k in (1, 2))
        inputs = (x, *states, w, r, _bias(layer, layer.op, d))
    type = result_of(layer.op, inputs)
    yield Made(layer.op, inputs, Value(f"{layer.label(d)}/steps", type))


def _weighted_inputs(layer: _Layer, x: Value, d: int) -> Made:
    """The products of all inputs with weights, as real numbers, with the biases."""
    op = PlainFullyConnected(UNLIMITED, keep_dimensions=True)
    w = _real_constant(layer, 1, d, "weights")
    of_inputs, of_hidden = _biases(layer, d)
    if isinstance(layer.op, PlainGru) and layer.op.reset_after:
        of_hidden = np.concatenate((of_hidden[: -layer.units], np.zeros(layer.units)))
    bias = Value.constant(f"{layer.label(d)}/bias", (of_inputs + of_hidden).astype(np.float32))
    type = op.result_type((x.type, w.type, bias.type))
    return Made(op, (x, w, bias), Value(f"{layer.label(d)}/weighted_inputs", type))


def _extra(layer: _Layer, op: PlainRecurrence, d: int) -> Values:
    """The constants after the weights of the hidden state."""
    match op:
        case PlainGru(reset_after=True):
            numbers = _biases(layer, d)[1][-layer.units :]
            return (Value.constant(f"{layer.label(d)}/after", numbers.astype(np.float32)),)
        case PlainLstm(peepholes=True):
            return (_real_constant(layer, PEEPHOLES, d, "peepholes"),)
        case _:
            return ()


def _real_constant(layer: _Layer, k: int, d: int, label: str) -> Value:
    """Constant input k of one direction, as real numbers."""
    found = real_numbers(layer.node, k)
    require(
        found.ndim > 0 and d < len(found),
        f"input {k} has shape {list(found.shape)}, its first axis counts directions",
    )
    return Value.constant(f"{layer.label(d)}/{label}", found[d].astype(np.float32))


def _constant_state(layer: _Layer, k: int, d: int) -> Value:
    """Constant initial state k, or zeros."""
    shape = (layer.batch, layer.units)
    found = np.zeros(shape)
    if layer.node.optional(k) is not None:
        every = real_numbers(layer.node, k)
        _require_states(layer, every.shape)
        found = every[:, d] if layer.batch_first else every[d]
    data = Data.of(found.astype(np.float32))
    return Value(f"{layer.label(d)}/initial{k}", TensorType(shape, DType.FLOAT32), data)


def _initial_state(layer: _Layer, k: int, d: int) -> Iterator[Made]:
    """Nodes of computed initial state k, (B, U), as real numbers; none if it is constant."""
    value = layer.node.optional(k)
    if value is None or value.data is not None:
        return
    _require_states(layer, value.shape)
    name = f"{layer.label(d)}/initial{k}"
    if len(layer.backwards) > 1:
        piece = along(value.shape, int(layer.batch_first), d, 1)
        one = value.shaped(f"{name}_direction", piece.shape)
        yield Made(piece, (value,), one)
        value = one
    shape = (layer.batch, layer.units)
    flat = value.shaped(f"{name}_state", shape)
    yield Made(Reshape(shape), (value,), flat)
    if value.dtype is not DType.FLOAT32:
        real = Value(name, TensorType(shape, DType.FLOAT32))
        yield Made(Dequantize(), (flat,), real)


def _require_states(layer: _Layer, shape: tuple[int, ...]) -> None:
    sizes = (len(layer.backwards), layer.batch)
    wanted = (*(reversed(sizes) if layer.batch_first else sizes), layer.units)
    require(shape == wanted, f"an initial state has shape {list(shape)}, must be {list(wanted)}")


def _bias(layer: _Layer, op: RealRecurrence, d: int) -> Value:
    """The biases of one direction as the operator takes them."""
    found = op.bias(*_biases(layer, d)).astype(np.float32)
    return Value.constant(f"{layer.label(d)}/bias", found)


def _biases(layer: _Layer, d: int) -> tuple[Array, Array]:
    """The biases of one direction, of the inputs and of the hidden state."""
    count = layer.op.GATES * layer.units
    directions = len(layer.backwards)
    both = np.zeros((directions, 2 * count))
    if layer.node.optional(BIASES) is not None:
        both = real_numbers(layer.node, BIASES)
    require(
        both.shape == (directions, 2 * count),
        f"B has shape {list(both.shape)}, must be {[directions, 2 * count]}",
    )
    return both[d, :count], both[d, count:]


def _output(layer: _Layer, rows: list[Value], k: int) -> Iterator[Made]:
    """Output k: the hidden states of all steps (0), or the states after the last step."""
    output = layer.node.output(k)
    axis = (2 if k == 0 else 1) if layer.batch_first else (1 if k == 0 else 0)
    parts: list[Value] = []
    for d, steps in enumerate(rows):
        name = f"{output.name}/{'backwards' if layer.backwards[d] else 'forwards'}"
        made = tuple(_of_direction(layer, steps, k, name, d))
        yield from made
        parts.append(made[-1].output)
    shape = tuple(e * len(parts) if a == axis else e for a, e in enumerate(parts[0].shape))
    op = Concatenation(axis) if len(parts) > 1 else Reshape(shape)
    found = Value(output.name, parts[0].type.with_shape(shape))
    yield Made(op, tuple(parts), found)


def _of_direction(layer: _Layer, rows: Value, k: int, name: str, d: int) -> Iterator[Made]:
    """Output k of one direction, with an axis of extent 1 for directions."""
    q = layer.node.output(k).quantisation
    batch, steps, units = layer.batch, layer.steps, layer.units
    first = 0 if k == 0 else steps - 1
    end = units if k == CELL_OUTPUT else rows.shape[3]
    lower = end - units if q is None else 0
    shape = (1, steps - first, batch, end - lower)
    if shape != rows.shape:
        taken = rows.shaped(f"{name}/states", shape)
        yield Made(part((0, first, 0, lower), shape), (rows,), taken)
        rows = taken
    if q is not None:
        type = TensorType((*shape[:3], units), DType.INT8, q)
        quantised = Value(f"{name}/quantised", type)
        yield Made(RealHidden(units), (rows,), quantised)
        rows = quantised
    if k == 0 and layer.backwards[d]:
        turned = rows.shaped(f"{name}/in_order", rows.shape)
        yield Made(backwards(rows.shape, 1), (rows,), turned)
        rows = turned
    if k == 0 and layer.batch_first and batch > 1:
        swapped = rows.shaped(f"{name}/by_sequence", (1, batch, steps, units))
        yield Made(SWAP, (rows,), swapped)
        rows = swapped
    shape = (batch, 1, units) if layer.batch_first else (1, batch, units)
    if k == 0:
        shape = (batch, steps, 1, units) if layer.batch_first else (steps, *shape)
    yield Made(Reshape(shape), (rows,), rows.shaped(f"{name}/one", shape))


@frozen
class Gru(RealRecurrence):
    """A layer of gated recurrent units (GRU) on real numbers, one output row for each time step.

        x       (1, T, B, I)  int8     row t: the inputs of step t, for each sequence of the batch
        hidden  (B, U)        float32  the state before step 0
        w       (3 * U, I)    int8     weights of the gates: update, reset, candidate
        r       (3 * U, U)    int8     weights of the hidden state
        b       (3 * U)       float32  (4 * U) with `reset_after`, see below
        y       (1, T, B, U)  float32  row t: hidden state after step t

        update, reset = logistic(w x + r hidden + b)
        candidate     = tanh(w x + r (reset * hidden) + b)
                        tanh(w x + b + reset * (r hidden + b'))    with `reset_after`; b' follows b
        hidden'       = (1 - update) * candidate + update * hidden

    Source: ONNX operator specification, GRU; `opkit/recurrence.py` defines the arithmetic.

    `reset_after`: the reset gate multiplies the product of the hidden state instead of the hidden
    state (ONNX: linear_before_reset)."""

    reset_after: bool = False

    GATES = 3
    STATES = 1
    KERNEL = "gru_s8_f32"

    ONNX = names(1, "GRU", "RNN")

    @property
    def biases(self) -> int:
        return self.GATES + self.reset_after

    def bias(self, of_inputs: Array, of_hidden: Array) -> Array:
        if not self.reset_after:
            return of_inputs + of_hidden
        last = len(of_inputs) // self.GATES
        sums = of_inputs[:-last] + of_hidden[:-last]
        return np.concatenate((sums, of_inputs[-last:], of_hidden[-last:]))

    def step(self, states: Gates, weighted: Floats, site: Site) -> Gates:
        (hidden,) = states
        r, b, type = site.constant(3), site.constant(4), site.inputs[3]
        units, scales = hidden.shape[-1], hidden_scales(site, self.STATES)
        gates, last = slice(None, 2 * units), slice(2 * units, None)
        bias, after = b[: self.GATES * units], b[self.GATES * units :]
        first, rest = (scales, scales) if scales.size == 1 else (scales[gates], scales[last])
        sums = weighted[:, gates] + hidden_products(hidden, r[gates], type, first) + bias[gates]
        update, reset = np.split(logistic(sums), 2, axis=-1)
        if self.reset_after:
            recurrent = reset * (hidden_products(hidden, r[last], type, rest) + after)
            sums = weighted[:, last] + bias[last] + recurrent
        else:
            recurrent = hidden_products(reset * hidden, r[last], type, rest)
            sums = weighted[:, last] + recurrent + bias[last]
        candidate = (np.float32(1) - update) * tanh(sums)
        return (np.add(candidate, update * hidden, dtype=np.float32),)

    def parameters(self) -> Params:
        return (("reset_after", int(self.reset_after)),)

    def scratch_vectors(self) -> int:
        return 1 if self.reset_after else 2


PEEPHOLES = 7
"""Position of an input."""


@frozen
class RealLstm(RealRecurrence):
    """A layer of long short-term memory (LSTM) on real numbers, one row for each time step.

        x       (1, T, B, I)      int8     row t: the inputs of step t, for each sequence of the
                                           batch
        cell    (B, U)            float32  the states before step 0
        hidden  (B, U)            float32
        w       (4 * U, I)        int8     weights of the gates: input, output, forget, candidate
        r       (4 * U, U)        int8     weights of the hidden state
        b       (4 * U)           float32
        y       (1, T, B, 2 * U)  float32  row t: cell state, then hidden state after step t

        gate    = activation(w x + r hidden + b)     logistic, of the candidate tanh
        cell'   = forget * cell + input * candidate
        hidden' = output * tanh(cell')

    Source: ONNX operator specification, LSTM; `opkit/recurrence.py` defines the
    arithmetic."""

    GATES = 4
    STATES = 2
    KERNEL = "lstm_s8_f32"

    ONNX = names(2, "LSTM")

    def step(self, states: Gates, weighted: Floats, site: Site) -> Gates:
        cell, hidden = states
        r, b = site.constant(4), site.constant(5)
        scales = hidden_scales(site, self.STATES)
        sums = weighted + hidden_products(hidden, r, site.inputs[4], scales) + b
        into, shown, kept, candidate = np.split(sums, self.GATES, axis=-1)
        added = logistic(into) * tanh(candidate)
        after = np.add(logistic(kept) * cell, added, dtype=np.float32)
        return after, logistic(shown) * tanh(after)


def _is_plain(node: OnnxNode) -> bool:
    """Whether inputs or weights of a layer are real numbers without quantisation."""
    return any(node.input(k).dtype is DType.FLOAT32 and not (k and node.assumed) for k in range(3))


def _onnx_lstm(node: OnnxNode) -> Nodes:
    has_peepholes, is_plain = node.optional(PEEPHOLES) is not None, _is_plain(node)
    if has_peepholes and not is_plain:
        raise node.unsupported(
            f'input {PEEPHOLES} "{node.input(PEEPHOLES).name}", peephole connections, is given, '
            "must be absent"
        )
    if node.integer("input_forget"):
        raise node.unsupported("attribute input_forget is 1, must be 0")
    op = PlainLstm(peepholes=has_peepholes) if is_plain else RealLstm()
    return nodes(node, op, ("Sigmoid", "Tanh", "Tanh"))


def from_onnx(node: OnnxNode) -> Nodes:
    match node.name:
        case "LSTM":
            return _onnx_lstm(node)
        case "RNN":
            return _onnx_rnn(node)
        case _:
            reset_after = node.integer("linear_before_reset") != 0
            op = PlainGru(reset_after) if _is_plain(node) else Gru(reset_after)
            return nodes(node, op, ("Sigmoid", "Tanh"))


def _onnx_rnn(node: OnnxNode) -> Nodes:
    """A simple layer, whose directions have one activation, on real numbers."""
    is_rectified = {text.lower() for text in node.texts("activations", ())} == {"relu"}
    return nodes(node, PlainRnn(is_rectified), ("Relu",) if is_rectified else ("Tanh",))
