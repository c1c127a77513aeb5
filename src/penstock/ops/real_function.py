"""RealFunction: a function of one real variable, in real arithmetic.

    x  any shape  int8
    y  as x       int8     y = zero_y + f(scale_x * (x - zero_x)) / scale_y, rounded half to even

Source: ONNX operator specification: the node between a DequantizeLinear and a QuantizeLinear, each
function by its name there.  Elements for which f is not defined become the zero point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.ir.foreign import Made
from penstock.ir.onnx_node import Layout, OnnxName, OnnxNode
from penstock.ir.tensor import Array, Quantisation, TensorType
from penstock.ops.checks import require
from penstock.ops.lookup import ELEMENTS, Lookup, saturated
from penstock.ops.samples import int8, sample

Parameters = tuple[float, ...]
Real = Callable[[float, Parameters], float]

UNBOUNDED = 3.0e38
"""A bound that is none."""
SQRT_HALF = math.sqrt(0.5)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _gelu(x: float, approximate: bool) -> float:
    if approximate:
        return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + math.erf(x * SQRT_HALF))


_FUNCTIONS: Mapping[str, tuple[Real, Mapping[str, float]]] = {
    "Abs": (lambda x, p: abs(x), {}),
    "Ceil": (lambda x, p: math.ceil(x), {}),
    "Celu": (lambda x, p: max(x, 0.0) + min(0.0, p[0] * math.expm1(x / p[0])), {"alpha": 1.0}),
    "Clip": (lambda x, p: min(max(x, p[0]), p[1]), {"min": -UNBOUNDED, "max": UNBOUNDED}),
    "Elu": (lambda x, p: x if x >= 0 else p[0] * math.expm1(x), {"alpha": 1.0}),
    "Erf": (lambda x, p: math.erf(x), {}),
    "Exp": (lambda x, p: math.exp(x), {}),
    "Floor": (lambda x, p: math.floor(x), {}),
    "Gelu": (lambda x, p: _gelu(x, bool(p[0])), {"approximate": 0.0}),
    "HardSigmoid": (
        lambda x, p: min(max(p[0] * x + p[1], 0.0), 1.0),
        {"alpha": 0.2, "beta": 0.5},
    ),
    "HardSwish": (lambda x, p: x * min(max(x / 6 + 0.5, 0.0), 1.0), {}),
    "LeakyRelu": (lambda x, p: x if x >= 0 else p[0] * x, {"alpha": 0.01}),
    "Log": (lambda x, p: math.log(x) if x else -math.inf, {}),
    "Mish": (lambda x, p: x * math.tanh(_softplus(x)), {}),
    "Neg": (lambda x, p: -x, {}),
    "Reciprocal": (lambda x, p: 1 / x, {}),
    "Selu": (
        lambda x, p: p[1] * (x if x > 0 else p[0] * math.expm1(x)),
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    ),
    "Sigmoid": (lambda x, p: _sigmoid(x), {}),
    "Softplus": (lambda x, p: _softplus(x), {}),
    "Softsign": (lambda x, p: x / (1 + abs(x)), {}),
    "Sqrt": (lambda x, p: math.sqrt(x), {}),
    "Swish": (lambda x, p: x * _sigmoid(p[0] * x), {"alpha": 1.0}),
    "Tanh": (lambda x, p: math.tanh(x), {}),
}
"""By name in ONNX: the function, and its parameters, which are attributes, with their defaults."""


@dataclass(frozen=True, slots=True)
class RealFunction(Lookup):
    """The function of that name in ONNX, with its parameters."""

    function: str
    parameters: Parameters = ()

    FOREIGN: ClassVar[tuple[str, ...]] = ()

    def table(self, x: TensorType, y: TensorType) -> Array:
        f = _FUNCTIONS[self.function][0]
        reals = [_defined(f, x.scale * (int(e) - x.zero_point), self.parameters) for e in ELEMENTS]
        steps = np.clip(np.rint(np.array(reals) / y.scale), -512, 512)
        return saturated(steps.astype(np.int64) + y.zero_point)


def _defined(f: Real, x: float, parameters: Parameters) -> float:
    """f(x); 0 where it is not defined, infinite where it is too large."""
    try:
        found = f(x, parameters)
    except ValueError:
        return 0.0
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return 0.0 if math.isnan(found) else found


UNIT = Quantisation((1 / 256,), (-128,))
"""Of real numbers in [0, 1)."""
SIGNED_UNIT = Quantisation((1 / 128,), (0,))
"""Of real numbers in [-1, 1)."""
_RANGES = {
    "Sigmoid": UNIT,
    "HardSigmoid": UNIT,
    "Tanh": SIGNED_UNIT,
    "Softsign": SIGNED_UNIT,
    "Erf": SIGNED_UNIT,
}

ONNX = {
    name: OnnxName(Layout.ALIKE, fixed=_RANGES.get(name)) for name in _FUNCTIONS if name != "Clip"
}


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """A function of one variable."""
    parameters = tuple(
        _parameter(node, name, default) for name, default in _FUNCTIONS[node.name][1].items()
    )
    yield node.made(RealFunction(node.name, parameters), node.input(0))


def bounds(node: OnnxNode) -> tuple[float, float]:
    """Bounds of Clip: attributes, or since version 11 inputs."""
    least, most = (
        node.real(name, default) if node.optional(k) is None else _number(node, k)
        for k, (name, default) in enumerate(_FUNCTIONS["Clip"][1].items(), 1)
    )
    require(least <= most, f"bounds are {least} and {most}, the first must not be above")
    return max(least, -UNBOUNDED), min(most, UNBOUNDED)


def _parameter(node: OnnxNode, name: str, default: float) -> float:
    """A parameter, as a number."""
    if name == "approximate":
        return float(node.text(name, "none") == "tanh")
    found = node.real(name, default)
    require(math.isfinite(found), f"{name} is {found}, must be a finite number")
    require(node.name != "Celu" or found != 0, f"{name} is 0, must not be")
    return found


def _number(node: OnnxNode, k: int) -> float:
    elements = node.constant(k).ravel()
    require(len(elements) == 1, f"input {k} has {len(elements)} elements, must have 1")
    return float(elements[0])


SAMPLES = (
    sample(RealFunction("Sigmoid"), int8(1, 4, 3, 5), scale=1 / 255, zero=-128),
    sample(RealFunction("LeakyRelu", (0.1,)), int8(9, scale=0.4)),
    sample(RealFunction("Log"), int8(3, 5), scale=0.03, zero=4),
)
