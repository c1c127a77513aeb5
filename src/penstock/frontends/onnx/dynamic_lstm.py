"""Definition of DynamicQuantizeLSTM: its steps, one after another.

Each product quantises its real operand as a whole: the inputs of all steps at once, the state at
each step, so that no layer of real numbers computes the same.

Source: ContribOperators.md of onnxruntime; ONNX operator specification, LSTM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.folding import whole
from penstock.ir.tensor import Array

MOST_STEPS = 256
_FUNCTIONS = ("Sigmoid", "Tanh", "Tanh")
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights [inputs, gates], with a scale and a zero point for all gates or for each."""

    elements: Array
    scale: Array
    zero: Array

    def product(self, new: Definition, x: str) -> str:
        """The product of real numbers, which it quantises, and the weights."""
        steps, scale, zero = new.made_all("DynamicQuantizeLinear", x, count=3)
        weights, points = new.constant(self.elements), new.constant(self.zero)
        sums = new.as_real(new.made("MatMulInteger", steps, weights, zero, points))
        return new.made("Mul", sums, new.made("Mul", scale, new.constant(self.scale)))


@dataclass(frozen=True, slots=True)
class _Layer:
    """One direction: names of the inputs of all steps, [steps x batch, inputs], of the bias and of
    the first states, [batch, units]; empty if they are zero."""

    shape: tuple[int, ...]
    units: int
    inputs: _Weights
    states: _Weights
    x: str
    bias: str
    h: str
    c: str

    def steps(self, new: Definition, *, reverse: bool) -> tuple[list[str], str]:
        """The states after each step, by its number, and the last cell state."""
        count, batch, _ = self.shape
        units, h, c = self.units, self.h, self.c
        from_inputs = self.inputs.product(new, self.x)
        rows = [""] * count
        for k in reversed(range(count)) if reverse else range(count):
            bounds = new.integers(k * batch), new.integers((k + 1) * batch), new.integers(0)
            gates = new.made("Slice", from_inputs, *bounds)
            if h:
                gates = new.made("Add", gates, self.states.product(new, h))
            if self.bias:
                gates = new.made("Add", gates, self.bias)
            parts = [
                new.made("Slice", gates, new.integers(g * units), new.integers((g + 1) * units),
                         new.integers(1))
                for g in range(4)
            ]  # fmt: skip
            i, o, f = (new.made("Sigmoid", part) for part in parts[:3])
            added = new.made("Mul", i, new.made("Tanh", parts[3]))
            c = new.made("Add", new.made("Mul", f, c), added) if c else added
            h = rows[k] = new.made("Mul", o, new.made("Tanh", c))
        return rows, c


def _define(new: Definition) -> bool:
    """False for layers with peepholes, lengths of sequences, other functions or many steps, and if
    weights or a shape are not known."""
    attributes, shape = new.node.attributes, new.shapes.get(new.given(0))
    directions = _DIRECTIONS.get(str(attributes.get("direction", "forward")))
    units = whole(new.node, "hidden_size", 0)
    if shape is None or len(shape) != 3 or directions is None or units < 1:
        return False
    functions = _FUNCTIONS * len(directions)
    others = (attributes.get("clip"), attributes.get("input_forget"), new.given(4), new.given(7))
    is_plain = attributes.get("activations", functions) == functions and not any(others)
    weights, recurrent = _weights(new, 1, 8), _weights(new, 2, 10)
    bias = new.file.constants.get(new.given(3)) if new.given(3) else None
    known = len(weights) == len(recurrent) == len(directions)
    if not is_plain or not known or shape[0] > MOST_STEPS or (new.given(3) and bias is None):
        return False
    count, batch, inputs = shape
    x = new.made("Reshape", new.given(0), new.integers(count * batch, inputs))
    rows: list[list[str]] = []
    cells: list[str] = []
    for k, is_reverse in enumerate(directions):
        sums = bias[k, : 4 * units] + bias[k, 4 * units :] if bias is not None else None
        layer = _Layer(
            shape, units, weights[k], recurrent[k], x,
            "" if sums is None else new.constant(sums), *(_state(new, p, k) for p in (5, 6)),
        )  # fmt: skip
        steps, cell = layer.steps(new, reverse=is_reverse)
        rows.append(steps)
        cells.append(cell)
    last = [
        steps[0 if is_reverse else -1] for steps, is_reverse in zip(rows, directions, strict=True)
    ]
    every = [name for step in zip(*rows, strict=True) for name in step]
    for position, names, wanted in (
        (0, every, (count, len(rows), batch, units)),
        (1, last, (len(rows), batch, units)),
        (2, cells, (len(rows), batch, units)),
    ):
        joined = new.made("Concat", *names, axis=0)
        new.name_output(new.made("Reshape", joined, new.integers(*wanted)), position)
    return True


def _weights(new: Definition, position: int, scale: int) -> list[_Weights]:
    """The weights of each direction; none if they are not constant."""
    parts = [new.file.constants.get(new.given(k)) for k in (position, scale, scale + 1)]
    known = [x for x in parts if x is not None]
    if len(known) < len(parts) or len({len(x) for x in known}) > 1:
        return []
    return [_Weights(*one) for one in zip(*known, strict=True)]


def _state(new: Definition, position: int, direction: int) -> str:
    """The first state of a direction; empty if it is absent."""
    if not (name := new.given(position)):
        return ""
    index = new.integers(direction)
    return new.made_along("Squeeze", new.made("Gather", name, index, axis=0), 0)


DEFINITIONS: Mapping[str, Define] = {"DynamicQuantizeLSTM": _define}
