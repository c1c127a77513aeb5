"""Definitions of recurrent layers: their steps, one after another.

They define DynamicQuantizeLSTM, whose products quantise their real operand as a whole (the inputs
of all steps at once, the state at each step), and those forms of LSTM, GRU and RNN that no operator
of penstock computes: with other activations, clipped gates or computed weights.

Source: ONNX operator specification, LSTM, GRU and RNN; ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from penstock.frontends.onnx.definitions import Define, Definition
from penstock.frontends.onnx.file import File, FileNode
from penstock.frontends.onnx.folding import whole
from penstock.frontends.onnx.operators import DEQUANTISE
from penstock.frozen import frozen
from penstock.ir.tensor import Array

MOST_STEPS = 256
DYNAMIC = "DynamicQuantizeLSTM"
_GATES = {"LSTM": 4, DYNAMIC: 4, "GRU": 3, "RNN": 1}
_FUNCTIONS = {
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
    DYNAMIC: ("Sigmoid", "Tanh", "Tanh"),
    "GRU": ("Sigmoid", "Tanh"),
    "RNN": ("Tanh",),
}
_OTHERS: Mapping[str, Mapping[str, float]] = {
    "Relu": {}, "Softsign": {}, "Softplus": {}, "LeakyRelu": {"alpha": 0.01},
    "Elu": {"alpha": 1.0}, "ThresholdedRelu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
}  # fmt: skip
"""Activations that a layer may state, with their parameters and what these are by default."""
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_W, _R, _B, _LENGTHS, _H, _C, _P = range(1, 8)
"""Positions of inputs: weights, biases, lengths of the sequences, first states, peepholes."""
_SCALES = {_W: 8, _R: 10}
"""Positions of the scales of quantised weights; zero points follow."""

Product = Callable[[str], str]
"""The product of real numbers, [rows, inputs], and weights."""


def is_standard(node: FileNode, file: File) -> bool:
    """Whether an operator computes the layer, if it is an LSTM, GRU or RNN."""
    if node.name not in _GATES or node.name == DYNAMIC:
        return True
    if not {"clip", "input_forget"}.isdisjoint(node.attributes):
        return False
    functions = _functions_of(node)
    plain = _FUNCTIONS[node.name]
    if node.name == "RNN" and functions[:1] == ("relu",):
        plain = ("Relu",)
    if functions != tuple(map(str.lower, plain)) * (len(functions) // len(plain)):
        return False
    quantised = {y for n in file.nodes if n.name == DEQUANTISE for y in n.outputs}
    weights = [node.inputs[k] for k in (_W, _R, _B, _P) if k < len(node.inputs)]
    if len(node.inputs) > _P and node.inputs[_P] and not quantised.isdisjoint(weights):
        return False
    return all(not name or name in file.constants or name in quantised for name in weights)


def _functions_of(node: FileNode) -> tuple[str, ...]:
    """Its activations, of one or both directions, in lower case."""
    found = node.attributes.get("activations", _FUNCTIONS[node.name])
    return tuple(str(name).lower() for name in found) if isinstance(found, tuple) else ()


@frozen
class _Layer:
    """One direction.

    inputs: the products of the inputs of all steps and the weights, [steps x batch, gates].
    states: the products of a state and the weights: of all gates; in a GRU, of the first two, and
        of the candidate.
    bias, hidden_bias: of all gates, [gates]; empty if they are absent.
    peepholes: of the gates input, output and forget; empty if they are absent.
    functions: the activations in ONNX's order.
    """

    new: Definition
    units: int
    inputs: str
    states: tuple[Product, ...]
    bias: str
    hidden_bias: str
    peepholes: str
    functions: tuple[Product, ...]

    def steps(
        self, h: str, c: str, count: int, batch: int, *, reverse: bool
    ) -> tuple[list[str], str]:
        """The states after each step, by its number, and the last cell state.  Empty states are
        zero."""
        step = {"GRU": self._gru, "RNN": self._rnn}.get(self.new.node.name, self._lstm)
        rows = [""] * count
        for k in reversed(range(count)) if reverse else range(count):
            h, c = step(_piece(self.new, self.inputs, k * batch, (k + 1) * batch, axis=0), h, c)
            rows[k] = h
        return rows, c

    def _rnn(self, gates: str, h: str, c: str) -> tuple[str, str]:
        hidden = self.states[0](h) if h else ""
        return self._activated(0, self._sum(gates, hidden, self.bias, self.hidden_bias)), c

    def _gru(self, gates: str, h: str, c: str) -> tuple[str, str]:
        hidden = self.states[0](h) if h else ""
        terms = gates, hidden, self.bias, self.hidden_bias
        update, reset = (
            self._activated(0, self._sum(*(self._gate(x, k) for x in terms))) for k in range(2)
        )
        after = self._gate(self.hidden_bias, 2)
        if self.new.number("linear_before_reset", 0):
            inner = self._product(reset, self._sum(self.states[1](h) if h else "", after))
        else:
            inner = self._sum(self.states[1](self._product(reset, h)) if h else "", after)
        candidate = self._sum(self._gate(gates, 2), inner, self._gate(self.bias, 2))
        fresh = self._product(self._without(update), self._activated(1, candidate))
        return self._sum(fresh, self._product(update, h)), c

    def _lstm(self, gates: str, h: str, c: str) -> tuple[str, str]:
        hidden = self.states[0](h) if h else ""
        sums = self._sum(gates, hidden, self.bias, self.hidden_bias)

        def gate(k: int, cell: str) -> str:
            seen = self._product(self._gate(self.peepholes, k), cell)
            return self._activated(0, self._sum(self._gate(sums, k), seen))

        opened = gate(0, c)
        forget = self._without(opened) if self.new.number("input_forget", 0) else gate(2, c)
        added = self._product(opened, self._activated(1, self._gate(sums, 3)))
        c = self._sum(self._product(forget, c), added)
        return self._product(gate(1, c), self.functions[2](c)), c

    def _gate(self, x: str, k: int) -> str:
        """The columns of gate k."""
        return _piece(self.new, x, k * self.units, (k + 1) * self.units, axis=-1) if x else ""

    def _activated(self, k: int, x: str) -> str:
        """Function k of a gate, which the attribute `clip` limits."""
        limit = self.new.number("clip", 0)
        if limit > 0:
            x = self.new.made("Clip", x, -limit, limit)
        return self.functions[k](x)

    def _sum(self, *terms: str) -> str:
        first, *others = [term for term in terms if term] or [""]
        for term in others:
            first = self.new.made("Add", first, term)
        return first

    def _product(self, a: str, b: str) -> str:
        return self.new.made("Mul", a, b) if a and b else ""

    def _without(self, x: str) -> str:
        return self.new.made("Sub", 1, x)


def _define(new: Definition) -> bool:
    """False for unknown activations, parts of sequences, a batch as the first axis, or many steps,
    and if a shape is not known."""
    node, shape = new.node, new.shapes.get(new.given(0))
    directions = _DIRECTIONS.get(str(node.attributes.get("direction", "forward")))
    units = whole(node, "hidden_size", 0)
    if shape is None or len(shape) != 3 or directions is None or units < 1:
        return False
    count, batch, inputs = shape
    lengths = new.file.constants.get(new.given(_LENGTHS))
    is_whole = not new.given(_LENGTHS) or (lengths is not None and set(lengths) == {count})
    functions = _functions(new, len(directions))
    if not is_whole or not functions or count > MOST_STEPS or node.attributes.get("layout"):
        return False
    if node.name == DYNAMIC and not all(_constants(new, k) for k in (_W, _R)):
        return False
    x = new.made("Reshape", new.given(0), (count * batch, inputs))
    rows: list[list[str]] = []
    cells: list[str] = []
    for d, is_reverse in enumerate(directions):
        gates = _GATES[node.name] * units
        bias = _of_direction(new, _B, d)
        layer = _Layer(
            new,
            units,
            _product(new, _W, d, 0, gates)(x),
            tuple(_product(new, _R, d, *part) for part in _parts(node, units)),
            _piece(new, bias, 0, gates, axis=-1) if bias else "",
            _piece(new, bias, gates, 2 * gates, axis=-1) if bias else "",
            _of_direction(new, _P, d),
            functions[d],
        )
        h, c = (_of_direction(new, k, d) for k in (_H, _C))
        steps, cell = layer.steps(h, c, count, batch, reverse=is_reverse)
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
        if all(names):
            joined = new.made("Concat", *names, axis=0)
            new.name_output(new.made("Reshape", joined, wanted), position)
    return True


def _parts(node: FileNode, units: int) -> tuple[tuple[int, int], ...]:
    """The columns of weights of a state that one product takes."""
    gates = _GATES[node.name] * units
    return ((0, 2 * units), (2 * units, gates)) if node.name == "GRU" else ((0, gates),)


def _functions(new: Definition, directions: int) -> list[tuple[Product, ...]]:
    """The activations of each direction; none if one is unknown."""
    known = {name.lower(): name for name in ("Sigmoid", "Tanh", *_OTHERS)}
    plain = _FUNCTIONS[new.node.name]
    stated = new.node.attributes.get("activations")
    names = _functions_of(new.node) if stated else tuple(map(str.lower, plain)) * directions
    if len(names) != len(plain) * directions or not known.keys() >= set(names):
        return []
    given = {key: _numbers(new.node, f"activation_{key}") for key in ("alpha", "beta")}

    def function(name: str) -> Product:
        parameters = {key: next(given[key], x) for key, x in _OTHERS.get(name, {}).items()}
        return lambda x: new.made(name, x, **parameters)

    every = [function(known[name]) for name in names]
    return [tuple(every[d * len(plain) : (d + 1) * len(plain)]) for d in range(directions)]


def _numbers(node: FileNode, name: str) -> Iterator[float]:
    """An attribute that lists real numbers."""
    found = node.attributes.get(name, ())
    return iter([x for x in found if isinstance(x, float)] if isinstance(found, tuple) else [])


def _product(new: Definition, position: int, direction: int, lower: int, upper: int) -> Product:
    """The product of real numbers and some columns of weights."""
    if new.node.name == DYNAMIC:
        constants = _constants(new, position)
        elements, scale, zero = (x[direction] for x in constants)
        weights, points = new.constant(elements[:, lower:upper]), new.constant(zero)

        def quantised(x: str) -> str:
            steps, step, point = new.made_all("DynamicQuantizeLinear", x, count=3)
            sums = new.as_real(new.made("MatMulInteger", steps, weights, point, points))
            return new.made("Mul", sums, new.made("Mul", step, scale))

        return quantised
    rows = _piece(new, _of_direction(new, position, direction), lower, upper, axis=0)
    columns = new.made("Transpose", rows, perm=(1, 0))
    return lambda x: new.made("MatMul", x, columns)


def _constants(new: Definition, position: int) -> tuple[Array, ...]:
    """Weights, scales and zero points of all directions; none if one is not constant."""
    scale = _SCALES[position]
    found = [new.file.constants.get(new.given(k)) for k in (position, scale, scale + 1)]
    known = tuple(x for x in found if x is not None)
    return known if len(known) == len(found) and len({len(x) for x in known}) == 1 else ()


def _of_direction(new: Definition, position: int, direction: int) -> str:
    """An input of a direction; empty if it is absent."""
    if not (name := new.given(position)):
        return ""
    index = new.integers(direction)
    return new.made_along("Squeeze", new.made("Gather", name, index, axis=0), 0)


def _piece(new: Definition, x: str, lower: int, upper: int, *, axis: int) -> str:
    return new.made("Slice", x, (lower,), (upper,), (axis,))


DEFINITIONS: Mapping[str, Define] = dict.fromkeys(_GATES, _define)
FORMS = tuple(name for name in _GATES if name != DYNAMIC)
"""Operators of which only some forms are defined here."""
