"""Functions of one variable of ONNX on real numbers, composed of operators that have kernels.

Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Op
from penstock.opkit.onnx_reals import RealNodes
from penstock.ops.abs import PlainAbs
from penstock.ops.add import PlainAdd
from penstock.ops.ceil import Ceil
from penstock.ops.div import PlainDiv
from penstock.ops.elu import PlainElu
from penstock.ops.exp import PlainExp
from penstock.ops.floor import Floor
from penstock.ops.log import PlainLog
from penstock.ops.logistic import PlainLogistic
from penstock.ops.maximum import PlainMaximum
from penstock.ops.minimum import PlainMinimum
from penstock.ops.mul import PlainMul
from penstock.ops.neg import Neg
from penstock.ops.plain_erf import PlainErf
from penstock.ops.sqrt import PlainSqrt
from penstock.ops.tanh import PlainTanh

_SINGLE: Mapping[str, Op] = {
    "Ceil": Ceil(),
    "Erf": PlainErf(),
    "Floor": Floor(),
    "Log": PlainLog(),
    "Neg": Neg(),
    "Sqrt": PlainSqrt(),
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
        raised = self.real.apply(PlainMaximum(), x, self._number(p[0]))
        return self.real.apply(PlainMinimum(), raised, self._number(p[1]))

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
        return self._sum(self._above(x), self._times(self._below(x), p[0]))

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
        return self.real.apply(PlainMaximum(), x, self._number(0.0))

    def _below(self, x: Value) -> Value:
        return self.real.apply(PlainMinimum(), x, self._number(0.0))

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
    "Gelu": _Form.gelu,
    "HardSigmoid": _Form.hard_sigmoid,
    "HardSwish": _Form.hard_swish,
    "LeakyRelu": _Form.leaky_relu,
    "Mish": _Form.mish,
    "Reciprocal": _Form.reciprocal,
    "Selu": _Form.selu,
    "Softplus": _Form.softplus,
    "Softsign": _Form.softsign,
    "Swish": _Form.swish,
}
