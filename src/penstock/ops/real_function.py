"""RealFunction: a unary function that only ONNX defines, computed in real arithmetic and rounded.

    x  any shape  int8
    y  as x       int8     y = zero_y + f(scale_x * (x - zero_x)) / scale_y, rounded half to even

Source: ONNX operator specification; the node stands between a DequantizeLinear and a
QuantizeLinear, and `function` is its name.  Functions that TFLite defines as well are operators of
their own, such as `Logistic`, with `Numerics.REAL`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from penstock.frozen import frozen
from penstock.ir.foreign import Made, Nodes
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
from penstock.ops.formulas import Term
from penstock.ops.plain import (
    Ceil,
    Floor,
    Neg,
    PlainAbs,
    PlainElu,
    PlainErf,
    PlainExp,
    PlainLog,
    PlainLogistic,
    PlainPRelu,
    PlainRelu,
    PlainSqrt,
    PlainTanh,
)

Parameters = tuple[float, ...]

UNBOUNDED = 3.0e38
"""Magnitude of a Clip bound that has no effect, as ONNX exporters write it."""


@frozen
class _Definition:
    """`function` of x and the parameters, which are ONNX attributes with these defaults."""

    function: Callable[[float, Parameters], float]
    defaults: Mapping[str, float]


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


_DEFINITIONS: Mapping[str, _Definition] = {
    "Ceil": _Definition(lambda x, p: math.ceil(x), {}),
    "Celu": _Definition(lambda x, p: x if x > 0 else p[0] * math.expm1(x / p[0]), {"alpha": 1.0}),
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


@frozen
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


def from_onnx(node: OnnxNode) -> Nodes:
    """An ONNX function of one variable."""
    defaults = _DEFINITIONS[node.name].defaults
    parameters = tuple(finite_parameter(node, *item) for item in defaults.items())
    if node.name == "Celu":  # for less than 0, ONNX's formula and its function body differ
        (alpha,) = parameters
        require(alpha > 0, f"alpha is {alpha}, must be above 0")
    if is_real(node):
        yield from real_form(node, node.name, parameters)
        return
    yield node.made(RealFunction(node.name, parameters), node.x)


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


def real_form(node: OnnxNode, function: str, parameters: Parameters = ()) -> Iterator[Made]:
    """Nodes that apply a function, by its ONNX name, to input 0."""
    new = RealNodes(node)
    x = Term(new, new.input(0))
    found = x.to(_SINGLE[function]) if function in _SINGLE else _COMPOSED[function](x, parameters)
    return new.result(found.value)


def _clip(x: Term, p: Parameters) -> Term:
    least, most = (math.copysign(math.inf, b) if abs(b) >= UNBOUNDED else b for b in p)
    return x.to(PlainRelu(Limits(least, most)))


def _hard_sigmoid(x: Term, p: Parameters) -> Term:
    return _clip(_plus(_times(x, p[0]), p[1]), (0.0, 1.0))


def _softplus_of(x: Term) -> Term:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|))."""
    power = _plus(abs(x).to(Neg()).to(PlainExp()), 1.0)
    return _above(x) + power.to(PlainLog())


def _elu(x: Term, p: Parameters) -> Term:
    if p[0] == 1.0:
        return x.to(PlainElu())
    # Input 0 is dequantised again, so that it need not be stored as real numbers.
    below = _below(Term(x.nodes, x.nodes.input(0))).to(PlainElu())
    scaled = below * x.nodes.constant(p[0], "alpha")
    return _above(x) + scaled


def _gelu(x: Term, p: Parameters) -> Term:
    """p: whether by tanh, approximately."""
    half = _times(x, 0.5)
    if p[0]:
        scaled = _times(x + _times(x * x * x, 0.044715), math.sqrt(2 / math.pi))
        found = scaled.to(PlainTanh())
    else:
        found = _times(x, math.sqrt(0.5)).to(PlainErf())
    return half * _plus(found, 1.0)


def _exponential(x: Term, alpha: float, width: float) -> Term:
    """x, or alpha * (exp(x / width) - 1) where x is negative."""
    below = _times(_below(x), 1 / width).to(PlainElu())
    return _above(x) + _times(below, alpha)


def _above(x: Term) -> Term:
    return _clip(x, (0.0, math.inf))  # unlike a maximum, keeps NaN


def _below(x: Term) -> Term:
    return _clip(x, (-math.inf, 0.0))


def _times(x: Term, factor: float) -> Term:
    return x if factor == 1.0 else x * _constant(x, factor)


def _plus(x: Term, offset: float) -> Term:
    return x + _constant(x, offset)


def _constant(x: Term, number: float) -> Term:
    return Term(x.nodes, x.nodes.constant(number, f"number_{number!r}"))


_COMPOSED: Mapping[str, Callable[[Term, Parameters], Term]] = {
    "Celu": lambda x, p: _exponential(x, p[0], p[0]),
    "Clip": _clip,
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda x, _: x * _hard_sigmoid(x, (1 / 6, 0.5)),
    "LeakyRelu": lambda x, p: x.to(PlainPRelu(), p[0]),
    "Mish": lambda x, _: x * _softplus_of(x).to(PlainTanh()),
    "Reciprocal": lambda x, _: _constant(x, 1.0) / x,
    "Relu": _clip,
    "Selu": lambda x, p: _times(_exponential(x, p[0], 1.0), p[1]),
    "Softplus": lambda x, _: _softplus_of(x),
    "Softsign": lambda x, _: x / _plus(abs(x), 1.0),
    "Swish": lambda x, p: x * _times(x, p[0]).to(PlainLogistic()),
}
"""By ONNX name, the composition from the attributes, in the order of `RealFunction`."""
