"""RealFunction: a unary function that only ONNX defines, computed in real arithmetic and rounded.

    x  any shape  int8
    y  as x       int8     y = zero_y + f(scale_x * (x - zero_x)) / scale_y, rounded half to even

Source: ONNX operator specification; the node stands between a DequantizeLinear and a
QuantizeLinear, and `function` is its name.  Functions that TFLite defines as well are operators of
their own, such as `Logistic`, with `Numerics.REAL`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.ir.operator_facts import REALS, AxisOrder, OnnxName, onnx
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import onnx_constants
from penstock.opkit.activation import Limits
from penstock.opkit.checks import require
from penstock.opkit.lookup import (
    SIGNED_UNIT_INTERVAL,
    UNIT_INTERVAL,
    Lookup,
    finite_parameter,
    real_sigmoid,
    real_table,
)
from penstock.opkit.nodes import is_real
from penstock.opkit.real_nodes import RealNodes
from penstock.ops.plain import (
    Ceil,
    Floor,
    Neg,
    PlainAbs,
    PlainAdd,
    PlainDiv,
    PlainElu,
    PlainErf,
    PlainExp,
    PlainLog,
    PlainLogistic,
    PlainMul,
    PlainPRelu,
    PlainRelu,
    PlainSqrt,
    PlainTanh,
)

Parameters = tuple[float, ...]

UNBOUNDED = 3.0e38
"""Magnitude of a Clip bound that has no effect, as ONNX exporters write it."""


@dataclass(frozen=True, slots=True)
class _Definition:
    """`function` of x and the parameters, which are ONNX attributes with these defaults."""

    function: Callable[[float, Parameters], float]
    defaults: Mapping[str, float]


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


_DEFINITIONS: Mapping[str, _Definition] = {
    "Ceil": _Definition(lambda x, p: math.ceil(x), {}),
    "Celu": _Definition(
        lambda x, p: max(x, 0.0) + min(0.0, p[0] * math.expm1(x / p[0])), {"alpha": 1.0}
    ),
    "Clip": _Definition(
        lambda x, p: min(max(x, p[0]), p[1]), {"min": -UNBOUNDED, "max": UNBOUNDED}
    ),
    "Erf": _Definition(lambda x, p: math.erf(x), {}),
    "Floor": _Definition(lambda x, p: math.floor(x), {}),
    "HardSigmoid": _Definition(
        lambda x, p: min(max(p[0] * x + p[1], 0.0), 1.0), {"alpha": 0.2, "beta": 0.5}
    ),
    "Log": _Definition(lambda x, p: math.log(x) if x else -math.inf, {}),
    "Mish": _Definition(lambda x, p: x * math.tanh(_softplus(x)), {}),
    "Neg": _Definition(lambda x, p: -x, {}),
    "Reciprocal": _Definition(lambda x, p: 1 / x, {}),
    "Selu": _Definition(
        lambda x, p: p[1] * (x if x > 0 else p[0] * math.expm1(x)),
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    ),
    "Softplus": _Definition(lambda x, p: _softplus(x), {}),
    "Softsign": _Definition(lambda x, p: x / (1 + abs(x)), {}),
    "Sqrt": _Definition(lambda x, p: math.sqrt(x), {}),
    "Swish": _Definition(lambda x, p: x * real_sigmoid(p[0] * x), {"alpha": 1.0}),
}
"""Functions by their ONNX names."""

_OWN = tuple(name for name in _DEFINITIONS if name != "Clip")
"""Functions that no other operator computes."""


@dataclass(frozen=True, slots=True)
class RealFunction(Lookup):
    """The function with ONNX name `function`, applied to `parameters` in order of definition."""

    function: str
    parameters: Parameters = ()

    ONNX = (
        onnx(REALS, *_OWN)
        | onnx(OnnxName(AxisOrder.ALIKE, fixed=UNIT_INTERVAL, floats=True), "HardSigmoid")
        | onnx(
            OnnxName(AxisOrder.ALIKE, fixed=SIGNED_UNIT_INTERVAL, floats=True), "Softsign", "Erf"
        )
    )

    def table(self, x: TensorType, y: TensorType) -> Array:
        function = _DEFINITIONS[self.function].function
        return real_table(lambda r: function(r, self.parameters), x, y)


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """An ONNX function of one variable."""
    defaults = _DEFINITIONS[node.name].defaults
    parameters = tuple(finite_parameter(node, *item) for item in defaults.items())
    require(node.name != "Celu" or parameters != (0.0,), "alpha is 0, must not be")
    if is_real(node):
        yield from real_form(node, node.name, parameters)
        return
    yield node.made(RealFunction(node.name, parameters), node.input(0))


def clip_bounds(node: OnnxNode) -> tuple[float, float]:
    """Lower and upper bound of ONNX Clip: attributes, or inputs since version 11.

    Raises ModelError if they are in the wrong order."""
    lower, upper = (
        node.real(name, default) if node.optional(k) is None else _number(node, k)
        for k, (name, default) in enumerate(_DEFINITIONS["Clip"].defaults.items(), 1)
    )
    require(lower <= upper, f"bounds are {lower} and {upper}, the first must not be above")
    return max(lower, -UNBOUNDED), min(upper, UNBOUNDED)


def _number(node: OnnxNode, k: int) -> float:
    numbers = onnx_constants.real_numbers(node, k).ravel()
    require(len(numbers) == 1, f"input {k} has {len(numbers)} elements, must have 1")
    return float(numbers[0])


_SINGLE: Mapping[str, Op] = {
    "Abs": PlainAbs(),
    "Ceil": Ceil(),
    "Erf": PlainErf(),
    "Exp": PlainExp(),
    "Floor": Floor(),
    "Log": PlainLog(),
    "Neg": Neg(),
    "Sigmoid": PlainLogistic(),
    "Sqrt": PlainSqrt(),
    "Tanh": PlainTanh(),
}


def real_form(node: OnnxNode, function: str, parameters: tuple[float, ...] = ()) -> Iterator[Made]:
    """Nodes that apply a function, by its ONNX name, to input 0."""
    form = _Form(RealNodes(node))
    return form.real.result(form.value(function, form.real.input(0), parameters))


class _Form:
    """Composes one function."""

    def __init__(self, real: RealNodes) -> None:
        self.real = real

    def value(self, function: str, x: Value, p: tuple[float, ...]) -> Value:
        """f(x); p: the attributes, in the order of `RealFunction`."""
        if function in _SINGLE:
            return self.real.apply(_SINGLE[function], x)
        return _COMPOSED[function](self, x, p)

    def clip(self, x: Value, p: tuple[float, ...]) -> Value:
        least, most = (math.copysign(math.inf, b) if abs(b) >= UNBOUNDED else b for b in p)
        return self.real.apply(PlainRelu(Limits(least, most)), x)

    def reciprocal(self, x: Value, p: tuple[float, ...]) -> Value:
        return self.real.apply(PlainDiv(), self._number(1.0), x)

    def hard_sigmoid(self, x: Value, p: tuple[float, ...]) -> Value:
        return self.clip(self._plus(self._times(x, p[0]), p[1]), (0.0, 1.0))

    def hard_swish(self, x: Value, p: tuple[float, ...]) -> Value:
        return self._product(x, self.hard_sigmoid(x, (1 / 6, 0.5)))

    def swish(self, x: Value, p: tuple[float, ...]) -> Value:
        return self._product(x, self.real.apply(PlainLogistic(), self._times(x, p[0])))

    def softsign(self, x: Value, p: tuple[float, ...]) -> Value:
        return self.real.apply(PlainDiv(), x, self._plus(self.real.apply(PlainAbs(), x), 1.0))

    def softplus(self, x: Value, p: tuple[float, ...]) -> Value:
        """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))."""
        size = self.real.apply(Neg(), self.real.apply(PlainAbs(), x))
        power = self._plus(self.real.apply(PlainExp(), size), 1.0)
        return self._sum(self._above(x), self.real.apply(PlainLog(), power))

    def mish(self, x: Value, p: tuple[float, ...]) -> Value:
        return self._product(x, self.real.apply(PlainTanh(), self.softplus(x, ())))

    def leaky_relu(self, x: Value, p: tuple[float, ...]) -> Value:
        return self.real.apply(PlainPRelu(), x, p[0])

    def elu(self, x: Value, p: tuple[float, ...]) -> Value:
        if p[0] == 1.0:
            return self.real.apply(PlainElu(), x)
        # Input 0 is dequantised again, so that it need not be stored as real numbers.
        below = self.real.apply(PlainElu(), self._below(self.real.input(0)))
        scaled = self._product(below, self.real.constant(p[0], "alpha"))
        return self._sum(self._above(x), scaled)

    def celu(self, x: Value, p: tuple[float, ...]) -> Value:
        return self._elu(x, p[0], p[0])

    def selu(self, x: Value, p: tuple[float, ...]) -> Value:
        return self._times(self._elu(x, p[0], 1.0), p[1])

    def gelu(self, x: Value, p: tuple[float, ...]) -> Value:
        """p: whether by tanh, approximately."""
        half = self._times(x, 0.5)
        if p[0]:
            cube = self._product(self._product(x, x), x)
            argument = self._sum(x, self._times(cube, 0.044715))
            scaled = self._times(argument, math.sqrt(2 / math.pi))
            found = self.real.apply(PlainTanh(), scaled)
        else:
            found = self.real.apply(PlainErf(), self._times(x, math.sqrt(0.5)))
        return self._product(half, self._plus(found, 1.0))

    def _elu(self, x: Value, alpha: float, width: float) -> Value:
        """x, or alpha * (exp(x / width) - 1) where x is negative."""
        below = self.real.apply(PlainElu(), self._times(self._below(x), 1 / width))
        return self._sum(self._above(x), self._times(below, alpha))

    def _above(self, x: Value) -> Value:
        return self.clip(x, (0.0, math.inf))  # unlike a maximum, keeps NaN

    def _below(self, x: Value) -> Value:
        return self.clip(x, (-math.inf, 0.0))

    def _times(self, x: Value, factor: float) -> Value:
        return x if factor == 1.0 else self._product(x, self._number(factor))

    def _plus(self, x: Value, offset: float) -> Value:
        return self._sum(x, self._number(offset))

    def _product(self, a: Value, b: Value) -> Value:
        return self.real.apply(PlainMul(), a, b)

    def _sum(self, a: Value, b: Value) -> Value:
        return self.real.apply(PlainAdd(), a, b)

    def _number(self, number: float) -> Value:
        return self.real.constant(number, f"number_{number!r}")


_COMPOSED: Mapping[str, Callable[[_Form, Value, tuple[float, ...]], Value]] = {
    "Celu": _Form.celu,
    "Clip": _Form.clip,
    "Elu": _Form.elu,
    "Gelu": _Form.gelu,
    "HardSigmoid": _Form.hard_sigmoid,
    "HardSwish": _Form.hard_swish,
    "LeakyRelu": _Form.leaky_relu,
    "Mish": _Form.mish,
    "Reciprocal": _Form.reciprocal,
    "Relu": _Form.clip,
    "Selu": _Form.selu,
    "Softplus": _Form.softplus,
    "Softsign": _Form.softsign,
    "Swish": _Form.swish,
}
