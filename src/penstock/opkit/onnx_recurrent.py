"""Import of recurrent layers of ONNX: operands by direction, and nodes for each output.

    X          (T, B, I)      Y         (T, D, B, U)    D: directions, 1 or 2
    W          (D, gates * U, I)
    R          (D, gates * U, U)
    B          (D, 2 * gates * U)
    initial_h  (D, B, U)      Y_h       (D, B, U)       initial_c and Y_c of LSTM likewise

With layout 1, the batch is the first axis of X, Y and the states, and D follows T in Y.

Source: ONNX operator specification, LSTM and GRU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Data, DType, TensorType
from penstock.opkit.checks import require, require_rank
from penstock.opkit.nodes import reshaped
from penstock.opkit.onnx_constants import real_numbers, weights_at
from penstock.opkit.real_recurrence import RealRecurrence
from penstock.ops.concatenation import Concatenation
from penstock.ops.dequantize import Dequantize
from penstock.ops.real_hidden import RealHidden
from penstock.ops.reshape import Reshape
from penstock.ops.slice import Slice
from penstock.ops.transpose import Transpose

DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""By the attribute `direction`, whether each direction reads the sequence from its end."""
BIASES, LENGTHS, HIDDEN = 3, 4, 5
"""Positions of inputs."""
CELL_OUTPUT = 2
SWAP = Transpose((0, 2, 1, 3))
"""Exchanges the axes of steps and sequences."""


def names(states: int, *names: str) -> Mapping[str, OnnxName]:
    """ONNX names of a layer with `states` states."""
    inputs = tuple(range(HIDDEN, HIDDEN + states))
    return onnx(OnnxName(AxisOrder.MODEL, real_inputs=inputs), *names)


@dataclass(frozen=True, slots=True)
class _Layer:
    """A layer of the model.  `backwards`: for each direction, whether it starts at the end;
    `batch_first`: the attribute `layout`."""

    node: OnnxNode
    op: RealRecurrence
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


def nodes(node: OnnxNode, op: RealRecurrence, activations: tuple[str, ...]) -> Iterable[Made]:
    """Nodes that compute a recurrent layer by `op`.

    activations: the supported ones, of one direction."""
    layer = _read(node, op, activations)
    rows: list[Value] = []
    x, arranged = _rows_of_steps(layer)
    yield from arranged
    for direction in range(len(layer.backwards)):
        made = tuple(_direction(layer, x, direction))
        rows.append(made[-1].output)
        yield from made
    for k, output in enumerate(node.outputs):
        if output.name:
            yield from _output(layer, rows, k)


def _read(node: OnnxNode, op: RealRecurrence, activations: tuple[str, ...]) -> _Layer:
    """Raises UnsupportedError for variants that no kernel computes, ModelError for inconsistent
    operands."""
    direction = node.text("direction", "forward")
    backwards = DIRECTIONS.get(direction)
    require(
        backwards is not None,
        f"direction is {direction!r:.60}, must be {', '.join(DIRECTIONS)}",
    )
    assert backwards is not None
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
    x, recurrent = node.input(0).type, node.constant(2)
    require_rank(x, (3,), "input")
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


def _rows_of_steps(layer: _Layer) -> tuple[Value, tuple[Made, ...]]:
    """The inputs (1, T, B, I), and the nodes that arrange them, which are free for one sequence."""
    x, name = layer.node.input(0), f"{layer.name}/inputs"
    depth = x.type.shape[2]
    shape = (1, layer.steps, layer.batch, depth)
    if not layer.batch_first or layer.batch == 1:
        return reshaped(x, shape, name)
    image, reshape = reshaped(x, (1, layer.batch, layer.steps, depth), f"{name}_by_sequence")
    y = Value(name, x.type.with_shape(shape))
    return y, (*reshape, Made(SWAP, (image,), y))


def _direction(layer: _Layer, x: Value, d: int) -> Iterator[Made]:
    """The rows of one direction, in the order in which it computes them."""
    if layer.backwards[d]:
        made = _reversed(x, f"{layer.label(d)}/reversed_inputs")
        yield made
        x = made.output
    states: list[Value] = []
    for k in range(HIDDEN + layer.op.STATES - 1, HIDDEN - 1, -1):
        arranged = tuple(_initial_state(layer, k, d))
        yield from arranged
        states.append(arranged[-1].output if arranged else _constant_state(layer, k, d))
    w, r = (weights_at(layer.node, k, d) for k in (1, 2))
    inputs = (x, *states, w, r, _bias(layer, d))
    type = layer.op.result_type(tuple(value.type for value in inputs))
    yield Made(layer.op, inputs, Value(f"{layer.label(d)}/steps", type))


def _reversed(x: Value, name: str) -> Made:
    """The rows from the last to the first."""
    shape = x.type.shape
    op = Slice((0, shape[1] - 1, 0, 0), shape, (1, -1, 1, 1))
    return Made(op, (x,), Value(name, x.type))


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
    _require_states(layer, value.type.shape)
    name = f"{layer.label(d)}/initial{k}"
    if len(layer.backwards) > 1:
        axis = int(layer.batch_first)
        start = (0,) * axis + (d,) + (0,) * (2 - axis)
        piece = tuple(1 if a == axis else e for a, e in enumerate(value.type.shape))
        one = Value(f"{name}_direction", value.type.with_shape(piece))
        yield Made(Slice(start, piece, (1, 1, 1)), (value,), one)
        value = one
    shape = (layer.batch, layer.units)
    flat = Value(f"{name}_state", value.type.with_shape(shape))
    yield Made(Reshape(shape), (value,), flat)
    if value.type.dtype is not DType.FLOAT32:
        real = Value(name, TensorType(shape, DType.FLOAT32))
        yield Made(Dequantize(), (flat,), real)


def _require_states(layer: _Layer, shape: tuple[int, ...]) -> None:
    sizes = (len(layer.backwards), layer.batch)
    wanted = (*(reversed(sizes) if layer.batch_first else sizes), layer.units)
    require(shape == wanted, f"an initial state has shape {list(shape)}, must be {list(wanted)}")


def _bias(layer: _Layer, d: int) -> Value:
    """The biases of one direction as the operator takes them."""
    count = layer.op.GATES * layer.units
    directions = len(layer.backwards)
    both = np.zeros((directions, 2 * count))
    if layer.node.optional(BIASES) is not None:
        both = real_numbers(layer.node, BIASES)
    require(
        both.shape == (directions, 2 * count),
        f"B has shape {list(both.shape)}, must be {[directions, 2 * count]}",
    )
    found = layer.op.bias(both[d, :count], both[d, count:]).astype(np.float32)
    type = TensorType(found.shape, DType.FLOAT32)
    return Value(f"{layer.label(d)}/bias", type, Data.of(found))


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
    shape = tuple(e * len(parts) if a == axis else e for a, e in enumerate(parts[0].type.shape))
    op = Concatenation(axis) if len(parts) > 1 else Reshape(shape)
    found = Value(output.name, parts[0].type.with_shape(shape))
    yield Made(op, tuple(parts), found)


def _of_direction(layer: _Layer, rows: Value, k: int, name: str, d: int) -> Iterator[Made]:
    """Output k of one direction, with an axis of extent 1 for directions."""
    q = layer.node.output(k).type.quantisation
    batch, steps, units = layer.batch, layer.steps, layer.units
    first = 0 if k == 0 else steps - 1
    end = units if k == CELL_OUTPUT else rows.type.shape[3]
    lower = end - units if q is None else 0
    shape = (1, steps - first, batch, end - lower)
    if shape != rows.type.shape:
        taken = Value(f"{name}/states", rows.type.with_shape(shape))
        yield Made(Slice((0, first, 0, lower), shape, (1, 1, 1, 1)), (rows,), taken)
        rows = taken
    if q is not None:
        type = TensorType((*shape[:3], units), DType.INT8, q)
        quantised = Value(f"{name}/quantised", type)
        yield Made(RealHidden(units), (rows,), quantised)
        rows = quantised
    if k == 0 and layer.backwards[d]:
        made = _reversed(rows, f"{name}/in_order")
        yield made
        rows = made.output
    if k == 0 and layer.batch_first and batch > 1:
        swapped = Value(f"{name}/by_sequence", rows.type.with_shape((1, batch, steps, units)))
        yield Made(SWAP, (rows,), swapped)
        rows = swapped
    shape = (batch, 1, units) if layer.batch_first else (1, batch, units)
    if k == 0:
        shape = (batch, steps, 1, units) if layer.batch_first else (steps, *shape)
    yield Made(Reshape(shape), (rows,), Value(f"{name}/one", rows.type.with_shape(shape)))
