"""RealFunction: a unary function that only ONNX defines, computed in real arithmetic and rounded.

    x  any shape  int8
    y  as x       int8     y = zero_y + f(scale_x * (x - zero_x)) / scale_y, rounded half to even

Source: ONNX operator specification; the node stands between a DequantizeLinear and a
QuantizeLinear, and `function` is its name.  Functions that TFLite defines as well are operators of
their own, such as `Logistic`, with `Numerics.REAL`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.ir.foreign import Made
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.operator_facts import AxisOrder, OnnxName
from penstock.ir.tensor import Array, TensorType
from penstock.opkit import onnx_constants
from penstock.opkit.checks import require
from penstock.opkit.lookup import Lookup
from penstock.opkit.onnx_reals import is_real
from penstock.opkit.real_arithmetic import (
    SIGNED_UNIT_INTERVAL,
    UNIT_INTERVAL,
    finite_parameter,
    real_sigmoid,
    real_table,
)
from penstock.opkit.samples import int8, sample
from penstock.ops.real_forms import real_form

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

_OUTPUT_RANGES = {
    "HardSigmoid": UNIT_INTERVAL,
    "Softsign": SIGNED_UNIT_INTERVAL,
    "Erf": SIGNED_UNIT_INTERVAL,
}


@dataclass(frozen=True, slots=True)
class RealFunction(Lookup):
    """The function with ONNX name `function`, applied to `parameters` in order of definition."""

    function: str
    parameters: Parameters = ()

    ONNX: ClassVar[Mapping[str, OnnxName]] = {
        name: OnnxName(AxisOrder.ALIKE, fixed=_OUTPUT_RANGES.get(name), floats=True)
        for name in _DEFINITIONS
        if name != "Clip"
    }

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
    """The real number of constant input k, which has one element."""
    numbers = onnx_constants.real_numbers(node, k).ravel()
    require(len(numbers) == 1, f"input {k} has {len(numbers)} elements, must have 1")
    return float(numbers[0])


SAMPLES = (
    sample(RealFunction("HardSigmoid", (0.2, 0.5)), int8(1, 4, 3, 5), scale=1 / 255, zero=-128),
    sample(RealFunction("Softsign"), int8(9, scale=0.4)),
    sample(RealFunction("Log"), int8(3, 5), scale=0.03, zero=4),
)
