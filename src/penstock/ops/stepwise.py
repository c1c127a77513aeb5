"""ONNX operators with a state that each step of a sequence updates, composed step by step: RNN,
LSTM and GRU on real numbers (those on int8 are operators, `real_recurrent.py`), LinearAttention.

    X          (T, B, I)      Y         (T, D, B, U)    D: directions, 1 or 2
    W          (D, gates * U, I)
    R          (D, gates * U, U)
    B          (D, 2 * gates * U)
    initial_h  (D, B, U)      Y_h       (D, B, U)       initial_c and Y_c of LSTM likewise

With layout 1, the batch is the first axis of X, Y and the states, and D follows T in Y.

Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import PLAIN_MODEL, onnx
from penstock.ir.tensor import DType
from penstock.opkit.checks import require
from penstock.opkit.nodes import RealNodes
from penstock.ops.batch_matmul import PlainBatchMatmul
from penstock.ops.comparisons import PlainCompare, Relation, Select
from penstock.ops.concatenation import Concatenation
from penstock.ops.gather import Gather
from penstock.ops.plain import PlainAdd, PlainExp, PlainMul, PlainSub
from penstock.ops.real_function import apply_function
from penstock.ops.slice import Slice
from penstock.ops.transpose import Transpose

ONNX = onnx(PLAIN_MODEL, "LinearAttention")
ADD, SUB, MUL = PlainAdd(), PlainSub(), PlainMul()
MOST_STEPS = 512
"""Each step becomes nodes of its own."""
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS: Mapping[str, tuple[str, ...]] = {
    "RNN": ("Tanh",),
    "GRU": ("Sigmoid", "Tanh"),
    "LSTM": ("Sigmoid", "Tanh", "Tanh"),
}
_PARAMETERS: Mapping[str, tuple[float, ...]] = {
    "LeakyRelu": (0.01,),
    "Elu": (1.0,),
    "HardSigmoid": (0.2, 0.5),
    "Relu": (0.0, math.inf),
}
"""Defaults of functions with parameters; Relu is a clamp."""
_SUPPORTED = (*_PARAMETERS, "Sigmoid", "Softplus", "Softsign", "Tanh")


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX LinearAttention."""
    return _attention(node)


def part(new: RealNodes, x: Value, axis: int, first: int, count: int) -> Value:
    """Indices of an axis, from the first on."""
    start = [first if a == axis else 0 for a in range(x.type.rank)]
    shape = [count if a == axis else extent for a, extent in enumerate(x.type.shape)]
    if tuple(shape) == x.type.shape:
        return x
    return new.apply(Slice(tuple(start), tuple(shape), (1,) * x.type.rank), x)


@dataclass(frozen=True, slots=True)
class _Direction:
    """The operands of one direction; `recurrent` (1, gates * U, U), `peepholes` (1, 3 * U)."""

    recurrent: Value
    inputs: Value
    offset: Value | None
    peepholes: Value | None
    functions: tuple[str, ...]


def recurrent(node: OnnxNode) -> Iterable[Made]:
    """Nodes of a recurrent layer on real numbers."""
    new = RealNodes(node)
    x, w = new.input(0), new.input(1)
    batch_first = bool(node.integer("layout", 0))
    if batch_first:
        x = new.apply(Transpose((1, 0, 2)), x)
    steps, batch, depth = x.type.shape
    require(steps <= MOST_STEPS, f"there are {steps} steps, must be at most {MOST_STEPS}")
    count, rows, _ = w.type.shape
    units = rows // GATES[node.name]
    direction = node.text("direction", "forward")
    functions = node.texts("activations", _DEFAULTS[node.name] * count)
    results: list[list[Value]] = []
    flat = new.reshape(x, (1, steps * batch, depth))
    for d in range(count):
        each = len(functions) // count
        chosen = functions[each * d : each * (d + 1)]
        products = new.apply(PlainBatchMatmul(False, True), flat, part(new, w, 0, d, 1))
        bias, peepholes = (
            None if node.optional(k) is None else part(new, new.input(k), 0, d, 1) for k in (3, 7)
        )
        rows_of_steps = new.reshape(products, (steps, batch, rows))
        weights = part(new, new.input(2), 0, d, 1)
        operands = _Direction(weights, rows_of_steps, bias, peepholes, chosen)
        backwards = direction == "reverse" or d == 1
        results.append(_run(new, operands, d, units, backwards=backwards))
    wanted = {k: v for k, v in enumerate(node.outputs) if v.name}
    return new.results(
        {k: _joined(new, [found[k] for found in results], k, batch_first) for k in wanted}
    )


def _joined(new: RealNodes, parts: list[Value], k: int, batch_first: bool) -> Value:
    """Output k of all directions."""
    axis = 1 if k == 0 else 0
    shown = [new.reshape(p, (*p.type.shape[:axis], 1, *p.type.shape[axis:])) for p in parts]
    y = new.apply(Concatenation(axis), *shown) if len(shown) > 1 else shown[0]
    if not batch_first:
        return y
    return new.apply(Transpose((2, 0, 1, 3) if k == 0 else (1, 0, 2)), y)


def _initial(new: RealNodes, k: int, d: int, shape: tuple[int, int]) -> Value:
    if new.node.optional(k) is None:
        return new.typed_constant(np.zeros(shape), DType.FLOAT32)
    axis = int(bool(new.node.integer("layout", 0)))
    return new.reshape(part(new, new.input(k), axis, d, 1), shape)


def _run(
    new: RealNodes, operands: _Direction, d: int, units: int, *, backwards: bool
) -> list[Value]:
    """Y, and the last states, of one direction."""
    node = new.node
    steps, batch, _ = operands.inputs.type.shape
    states = [_initial(new, k, d, (batch, units)) for k in (5, 6)[: 1 + (node.name == "LSTM")]]
    lengths = None
    if node.optional(4) is not None:
        given = node.optional(4)
        whole = given is not None and given.data is not None
        if not (whole and set(node.constant_ints(4)) == {steps}):
            lengths = new.reshape(new.integers(node.input(4)), (batch, 1))
    if lengths is not None and backwards:
        raise node.unsupported("sequence_lens are not the whole sequence, which is read backwards")
    rows: list[Value] = []
    for t in reversed(range(steps)) if backwards else range(steps):
        products = new.reshape(part(new, operands.inputs, 0, t, 1), (batch, -1))
        found = _STEPS[node.name](new, operands, products, states, units)
        shown = found[0]
        if lengths is not None:
            inside = new.apply(PlainCompare(Relation.GREATER), lengths, t)
            shown = new.apply(Select(), inside, found[0], 0.0)
            found = [new.apply(Select(), inside, *pair) for pair in zip(found, states, strict=True)]
        states = found
        rows.append(new.reshape(shown, (1, batch, units)))
    rows = rows[::-1] if backwards else rows
    return [new.apply(Concatenation(0), *rows) if len(rows) > 1 else rows[0], *states]


def _of_state(new: RealNodes, operands: _Direction, h: Value, gates: slice, units: int) -> Value:
    """The products of a state and of the weights of some gates."""
    first, count = gates.start * units, (gates.stop - gates.start) * units
    weights = part(new, operands.recurrent, 1, first, count)
    y = new.apply(PlainBatchMatmul(False, True), new.reshape(h, (1, *h.type.shape)), weights)
    return new.reshape(y, (h.type.shape[0], count))


def _plus_bias(
    new: RealNodes, operands: _Direction, x: Value, gate: int, units: int, kinds: tuple[int, ...]
) -> Value:
    """x and the biases of the gates from one on, of the inputs (0) or of the state (1)."""
    if operands.offset is None:
        return x
    half = operands.offset.type.shape[1] // 2
    for kind in kinds:
        bias = part(new, operands.offset, 1, kind * half + gate * units, x.type.shape[1])
        x = new.apply(ADD, x, bias)
    return x


def _activated(new: RealNodes, operands: _Direction, k: int, x: Value) -> Value:
    node, name = new.node, operands.functions[k]
    known = {one.lower(): one for one in _SUPPORTED}
    if name.lower() not in known:
        raise node.unsupported(f"attribute activations has {name!r:.60}")
    if "clip" in node.attributes:
        bound = node.real("clip")
        x = apply_function(new, "Clip", x, (-bound, bound))
    parameters = _PARAMETERS.get(known[name.lower()], ())
    given = node.attributes.get("activation_alpha", ())
    if given and len(parameters) and known[name.lower()] != "Relu":
        raise node.unsupported("attribute activation_alpha is not supported")
    return apply_function(new, known[name.lower()], x, parameters)


def _rnn(
    new: RealNodes, operands: _Direction, x: Value, states: list[Value], units: int
) -> list[Value]:
    total = new.apply(ADD, x, _of_state(new, operands, states[0], slice(0, 1), units))
    total = _plus_bias(new, operands, total, 0, units, (0, 1))
    return [_activated(new, operands, 0, total)]


def _gru(
    new: RealNodes, operands: _Direction, x: Value, states: list[Value], units: int
) -> list[Value]:
    (h,) = states
    both = part(new, x, 1, 0, 2 * units)
    both = new.apply(ADD, both, _of_state(new, operands, h, slice(0, 2), units))
    both = _activated(new, operands, 0, _plus_bias(new, operands, both, 0, units, (0, 1)))
    update, reset = (part(new, both, 1, k * units, units) for k in (0, 1))
    own = _plus_bias(new, operands, part(new, x, 1, 2 * units, units), 2, units, (0,))
    if new.node.integer("linear_before_reset"):
        rest = _of_state(new, operands, h, slice(2, 3), units)
        rest = new.apply(MUL, reset, _plus_bias(new, operands, rest, 2, units, (1,)))
    else:
        rest = _of_state(new, operands, new.apply(MUL, reset, h), slice(2, 3), units)
        rest = _plus_bias(new, operands, rest, 2, units, (1,))
    candidate = _activated(new, operands, 1, new.apply(ADD, own, rest))
    kept = new.apply(MUL, update, h)
    added = new.apply(MUL, new.apply(SUB, 1.0, update), candidate)
    return [new.apply(ADD, added, kept)]


def _lstm(
    new: RealNodes, operands: _Direction, x: Value, states: list[Value], units: int
) -> list[Value]:
    h, c = states
    total = new.apply(ADD, x, _of_state(new, operands, h, slice(0, 4), units))
    total = _plus_bias(new, operands, total, 0, units, (0, 1))
    i, o, f, g = (part(new, total, 1, k * units, units) for k in range(4))
    i, f = (_peeping(new, operands, gate, c, k, units) for gate, k in ((i, 0), (f, 2)))
    i, g = _activated(new, operands, 0, i), _activated(new, operands, 1, g)
    coupled = new.node.integer("input_forget")
    f = new.apply(SUB, 1.0, i) if coupled else _activated(new, operands, 0, f)
    cell = new.apply(ADD, new.apply(MUL, f, c), new.apply(MUL, i, g))
    o = _activated(new, operands, 0, _peeping(new, operands, o, cell, 1, units))
    return [new.apply(MUL, o, _activated(new, operands, 2, cell)), cell]


def _peeping(
    new: RealNodes, operands: _Direction, gate: Value, cell: Value, k: int, units: int
) -> Value:
    """A gate that also sees the cell."""
    if operands.peepholes is None:
        return gate
    weights = part(new, operands.peepholes, 1, k * units, units)
    return new.apply(ADD, gate, new.apply(MUL, weights, cell))


_STEPS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


def _attention(node: OnnxNode) -> Iterable[Made]:
    """LinearAttention: the state, (B, H, K, V), gets an outer product of key and value at each
    step, after it is decayed (gated) and what it yields for the key is taken off (delta)."""
    new, rule = RealNodes(node), node.text("update_rule", "gated_delta")
    heads, kv_heads = node.integer("q_num_heads"), node.integer("kv_num_heads")
    require(kv_heads > 0 and heads % kv_heads == 0, f"there are {heads} and {kv_heads} heads")
    query, key, value = (
        _by_head(new, new.input(k), heads if k == 0 else kv_heads) for k in range(3)
    )
    batch, _, steps, depth = query.type.shape
    width = value.type.shape[-1]
    require(steps <= MOST_STEPS, f"there are {steps} steps, must be at most {MOST_STEPS}")
    shape = (batch, kv_heads, depth, width)
    state = new.typed_constant(np.zeros(shape), DType.FLOAT32)
    if node.optional(3) is not None:
        state = new.input(3)
    decay = beta = None
    if rule in ("gated", "gated_delta"):
        decay = new.apply(PlainExp(), _by_head(new, new.input(4), kv_heads))
    if rule in ("delta", "gated_delta"):
        beta = _by_head(new, new.input(5), min(kv_heads, node.input(5).type.shape[-1]))
    scale = node.real("scale", 0.0) or 1 / math.sqrt(depth)
    query = new.apply(MUL, query, scale)
    outputs: list[Value] = []
    for t in range(steps):
        k, v = (part(new, x, 2, t, 1) for x in (key, value))
        column = new.reshape(k, (batch, kv_heads, depth, 1))
        if decay is not None:
            factor = part(new, decay, 2, t, 1)
            state = new.apply(MUL, state, new.reshape(factor, (batch, kv_heads, -1, 1)))
        if beta is not None:
            less = new.apply(SUB, v, new.apply(PlainBatchMatmul(), k, state))
            v = new.apply(MUL, part(new, beta, 2, t, 1), less)
        state = new.apply(ADD, state, new.apply(MUL, column, v))
        read = state
        if heads != kv_heads:
            read = new.apply(Gather(1, tuple(h * kv_heads // heads for h in range(heads))), state)
        outputs.append(new.apply(PlainBatchMatmul(), part(new, query, 2, t, 1), read))
    y = new.apply(Concatenation(2), *outputs) if steps > 1 else outputs[0]
    y = new.apply(Transpose((0, 2, 1, 3)), y)
    every = (new.reshape(y, (batch, steps, heads * width)), state)
    return new.results(
        {k: v for k, v in enumerate(every[: len(node.outputs)]) if node.output(k).name}
    )


def _by_head(new: RealNodes, x: Value, heads: int) -> Value:
    """(B, T, H * D) as (B, H, T, D)."""
    batch, steps, width = x.type.shape
    split = new.reshape(x, (batch, steps, heads, width // heads))
    return new.apply(Transpose((0, 2, 1, 3)), split)
