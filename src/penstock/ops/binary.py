"""Element-wise arithmetic of two int8 tensors, with requantisation; inputs may be broadcast.

    a, b  int8, each with its own scale and zero point
    y     int8   y = clamp(zero_y + f(a - zero_a, b - zero_b))

f is a function of the centred elements a and b.  Its factors M are real numbers m * 2^(s - 31), of
parameters such as `multiplier0` m and `shift0` s; products with them are rounded as in TFLite's
`MultiplyByQuantizedMultiplier`.  `step<k>_n` .. `step<k>_c` advance in input k by a row along N and
H, or an element along W and C; they are 0 along broadcast axes.  On int32 and float32, the same
names of the two formats denote operators of `ops/plain.py`.

Sources: TFLite, `reference/integer_ops/add.h`, `mul.h`, `reference/sub.h`, `div.h`, `prelu.h`,
`maximum_minimum.h`; parameters in TFLite Micro, `micro/kernels/add_common.cc`, `sub_common.cc`,
`mul_common.cc`, `div.cc`, `prelu_common.cc`, `squared_difference.cc`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from penstock.errors import UnsupportedError
from penstock.fixedpoint import (
    Int64s,
    doubling_high_multiply,
    multiply,
    quantise_multiplier,
    rounding_shift,
)
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Made, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Params, Site, Types, members, row_kernel
from penstock.ir.operator_facts import CARRIED, FUNCTION, REALS, onnx, relay
from penstock.ir.tensor import Array, Region, TensorType
from penstock.opkit import broadcast
from penstock.opkit.activation import UNLIMITED, Activation, Limits, fused_activation
from penstock.opkit.broadcast import Clamped, Elementwise
from penstock.opkit.checks import require, require_one_quantisation
from penstock.opkit.elementwise_nodes import elementwise_nodes, typed_nodes
from penstock.opkit.nodes import (
    in_scale_of_output,
    in_shape_of_output,
    is_plain_foreign,
    is_real,
    onnx_form,
)
from penstock.opkit.onnx_constants import exact_operand
from penstock.opkit.real_nodes import RealNodes, exact_elementwise
from penstock.opkit.requantise import fitting_multiplier
from penstock.opkit.transcendental import one_over_one_plus
from penstock.ops.plain import (
    PlainAdd,
    PlainDiv,
    PlainMaximum,
    PlainMinimum,
    PlainMul,
    PlainPRelu,
    PlainSquaredDifference,
    PlainSub,
)

Scaling = tuple[int, int]
"""(multiplier, shift) in fixed point."""
SUM_BITS, DIFFERENCE_BITS = 20, 7
"""Extra bits of the terms of sums, and of differences that are squared."""
LARGEST_PRODUCT = 255 * 255
"""Largest magnitude of a product before it is requantised."""
LARGEST_SQUARE = (255 << DIFFERENCE_BITS) ** 2
"""Largest square of a difference: each term is at most half of 255 << DIFFERENCE_BITS."""


@frozen
class _Arithmetic(Elementwise, ABC):
    """A function of the centred elements of two tensors."""

    NOUN: ClassVar[str]
    """The result, in messages."""
    KERNEL: ClassVar[str]

    @abstractmethod
    def combined(self, site: Site, a: Int64s, b: Int64s) -> Int64s:
        """The result in steps of the output, without its zero point."""

    @abstractmethod
    def parameters(self, site: Site) -> Params:
        """Parameters of the kernel besides zero points and bounds."""

    def result_type(self, inputs: Types) -> TensorType:
        return broadcast.int8_result(inputs, self.NOUN)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        a, b = broadcast.centred(site, inputs, out)
        # Clamped after the zero point is added, as in the reference.
        found = self.combined(site, a, b) + site.output.zero_point
        return np.clip(found, *self.bounds(site)).astype(np.int8)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel(
            self.KERNEL,
            broadcast.params(site),
            broadcast.zero_points(site),
            self.parameters(site),
            out_zero=site.output.zero_point,
        )

    def bounds(self, site: Site) -> tuple[int, int]:
        """Smallest and largest element of the output, both inclusive."""
        return -128, 127


@frozen
class _ClampedArithmetic(_Arithmetic):
    """Arithmetic with an activation, which TFLite fuses into the operator."""

    activation: Activation = Activation.NONE

    def bounds(self, site: Site) -> tuple[int, int]:
        return self.activation.bounds(site.output)

    def kernel(self, site: Site) -> Kernel:
        found = _Arithmetic.kernel(self, site)
        return row_kernel(found.name, found.params, self.activation.params(site.output))


@frozen
class _Sum(_ClampedArithmetic):
    """Multipliers are computed in double precision."""

    SIGN: ClassVar[int]
    NOUN = "sum"
    KERNEL = "add_s8"

    def combined(self, site: Site, a: Int64s, b: Int64s) -> Int64s:
        (left, right), result = self._scalings(site)
        b = self.SIGN * multiply(b << SUM_BITS, *right)
        return multiply(multiply(a << SUM_BITS, *left) + b, *result)

    def parameters(self, site: Site) -> Params:
        inputs, result = self._scalings(site)
        sign = (("sign1", self.SIGN),)
        return (*broadcast.input_scalings(*inputs), *sign, *_result_scaling(result))

    def _scalings(self, site: Site) -> tuple[tuple[Scaling, Scaling], Scaling]:
        twice_largest = 2 * max(x.scale for x in site.inputs)
        unit = site.output.scale * (1 << SUM_BITS)
        result = fitting_multiplier(twice_largest / unit, 255 << SUM_BITS)
        return _input_scalings(site), result


def _input_scalings(site: Site) -> tuple[Scaling, Scaling]:
    """From steps of each input to those of twice the larger scale."""
    a, b = (x.scale for x in site.inputs)
    twice_largest = 2 * max(a, b)
    return quantise_multiplier(a / twice_largest), quantise_multiplier(b / twice_largest)


def _result_scaling(scaling: Scaling) -> Params:
    return members(out_multiplier=scaling[0], out_shift=scaling[1])


@frozen
class Add(_Sum):
    """Element-wise sum with requantisation and clamp; inputs may be broadcast.

    f = My * (M0 * (a << 20) + M1 * (b << 20)), with inputs in steps of twice the larger scale."""

    TFLITE = ("ADD", "ADD_N")
    ONNX = onnx(REALS, "Add", "Sum") | onnx(FUNCTION, "Mean")
    RELAY = relay("add", "qnn.add")
    COMMUTATIVE = True
    SIGN = 1


@frozen
class Sub(_Sum):
    """Element-wise difference with requantisation and clamp; inputs may be broadcast.

    f = My * (M0 * (a << 20) - M1 * (b << 20)), with inputs in steps of twice the larger scale."""

    TFLITE = ("SUB",)
    ONNX = onnx(REALS, "Sub")
    RELAY = relay("subtract", "qnn.subtract")
    SIGN = -1


@frozen
class Mul(_ClampedArithmetic):
    """Element-wise product with requantisation and clamp; inputs may be broadcast.

    f = My * (a * b)."""

    TFLITE = ("MUL",)
    ONNX = onnx(REALS, "Mul")
    RELAY = relay("multiply", "qnn.mul")
    COMMUTATIVE = True
    NOUN = "product"
    KERNEL = "mul_s8"

    def combined(self, site: Site, a: Int64s, b: Int64s) -> Int64s:
        return multiply(a * b, *self.multiplier(site))

    def parameters(self, site: Site) -> Params:
        return _result_scaling(self.multiplier(site))

    def multiplier(self, site: Site) -> Scaling:
        """(multiplier, shift) of products."""
        a, b = site.inputs
        return fitting_multiplier(a.scale * b.scale / site.output.scale, LARGEST_PRODUCT)


LARGEST_SHIFT = 22
"""Largest exponent of the multiplier of quotients: the reference shifts quotients of 255 by 0 to
the right by at least as many bits."""
INVERSE_OF_ZERO = -1515870788
"""`GetReciprocal` of 0 (kernels/internal/common.h), if additions wrap around in 32 bits."""


@frozen
class Div(_ClampedArithmetic):
    """Quotient of two tensors.

    f = M * a * (1 / b), with 1 / b in Q0.31 (TFLite, `GetReciprocal`); both are negated if b < 0.
    The inverse of 0 is what the reference's iteration yields; where the reference shifts by more
    than 31 bits, which is undefined, the quotient rounds to 0."""

    TFLITE = ("DIV",)
    RELAY = relay("divide", "qnn.divide")
    NOUN = "division"
    KERNEL = "div_s8"

    def combined(self, site: Site, a: Int64s, b: Int64s) -> Int64s:
        return _quotients(a, b, *_quotient_scaling(site))

    def parameters(self, site: Site) -> Params:
        multiplier, shift = _quotient_scaling(site)
        return members(multiplier=multiplier, shift=shift)


def _quotient_scaling(site: Site) -> Scaling:
    """Raises UnsupportedError if the shift is too large."""
    a, b = (x.scale for x in site.inputs)
    real = a / (b * site.output.scale)
    multiplier, shift = quantise_multiplier(real)
    if shift > LARGEST_SHIFT:
        raise UnsupportedError(
            "model-025",
            f"quotients are multiplied by {real:.4g}, made of the scales; it must be below "
            f"2**{LARGEST_SHIFT}",
            why="the reference computes quotients in 32 bits",
            help="check the scales of the node's inputs and output",
        )
    return multiplier, shift


def _quotients(a: Int64s, b: Int64s, multiplier: int, shift: int) -> Int64s:
    a, b = np.where(b < 0, -a, a), np.abs(b)
    # b is shifted into [1, 2) of Q0.31, where 1 / b = 1 / (1 + fraction).
    zeros = _sign_bits(b) + 1
    fractions = np.maximum((b << zeros) - (1 << 31), 0)
    inverse = np.where(b == 0, INVERSE_OF_ZERO, one_over_one_plus(fractions))
    headroom = _sign_bits(a)
    unscaled = doubling_high_multiply(a << headroom, inverse)
    right = headroom + 31 - zeros - shift
    found = rounding_shift(doubling_high_multiply(unscaled, multiplier), np.minimum(right, 31))
    return np.where(right > 31, 0, found)


def _sign_bits(x: Int64s) -> Int64s:
    """How far int32 values can be shifted to the left without overflow."""
    return 31 - np.frexp(np.where(x < 0, ~x, x).astype(np.float64))[1].astype(np.int64)


@frozen
class SquaredDifference(_Arithmetic):
    """Element-wise (a - b)^2 with requantisation; inputs may be broadcast.

    f = My * (M0 * (a << 7) - M1 * (b << 7))^2, with inputs in steps of twice the larger scale."""

    TFLITE = ("SQUARED_DIFFERENCE",)
    COMMUTATIVE = True
    NOUN = "squared difference"
    KERNEL = "squared_difference_s8"

    def combined(self, site: Site, a: Int64s, b: Int64s) -> Int64s:
        left, right = _input_scalings(site)
        a, b = multiply(a << DIFFERENCE_BITS, *left), multiply(b << DIFFERENCE_BITS, *right)
        return multiply((a - b) ** 2, *_square_scaling(site))

    def parameters(self, site: Site) -> Params:
        inputs = broadcast.input_scalings(*_input_scalings(site))
        return (*inputs, *_result_scaling(_square_scaling(site)))


def _square_scaling(site: Site) -> Scaling:
    twice_largest = 2 * max(x.scale for x in site.inputs)
    unit = (1 << 2 * DIFFERENCE_BITS) * site.output.scale
    return fitting_multiplier(twice_largest * twice_largest / unit, LARGEST_SQUARE)


@frozen
class Prelu(_Arithmetic):
    """Parametric rectifier; negative values are multiplied by an input, with requantisation.

    f = Mabove * a where a >= 0, else Mbelow * (a * b); b, the slopes, broadcasts to a."""

    TFLITE = ("PRELU",)
    ONNX = onnx(REALS, "PRelu")
    RELAY = relay("nn.prelu")
    NOUN = "prelu"
    KERNEL = "prelu_s8"

    def result_type(self, inputs: Types) -> TensorType:
        found = _Arithmetic.result_type(self, inputs)
        require(
            found.shape == inputs[0].shape,
            f"slopes have shape {list(inputs[1].shape)}, must stretch to {list(inputs[0].shape)}",
        )
        return found

    def combined(self, site: Site, a: Int64s, b: Int64s) -> Int64s:
        above, below = _slopes(site)
        return np.where(a >= 0, multiply(a, *above), multiply(a * b, *below))

    def parameters(self, site: Site) -> Params:
        above, below = _slopes(site)
        return members(
            above_multiplier=above[0],
            above_shift=above[1],
            below_multiplier=below[0],
            below_shift=below[1],
        )


def _slopes(site: Site) -> tuple[Scaling, Scaling]:
    """Multipliers of positive and of negative values."""
    (x, alpha), y = site.inputs, site.output
    return (
        fitting_multiplier(x.scale / y.scale, 255),
        fitting_multiplier(x.scale * alpha.scale / y.scale, LARGEST_PRODUCT),
    )


@frozen
class _Extreme(Elementwise):
    """The larger or the smaller of two elements; inputs and output have one scale and zero point,
    as the reference compares elements without requantisation."""

    COMMUTATIVE = True
    LARGER: ClassVar[bool]

    def result_type(self, inputs: Types) -> TensorType:
        return broadcast.int8_result(inputs, type(self).__name__)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        a, b = broadcast.parts(site, inputs, out)
        return np.maximum(a, b) if self.LARGER else np.minimum(a, b)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("extreme_s8", broadcast.params(site), larger=self.LARGER)


@frozen
class Maximum(_Extreme):
    """Element-wise maximum; inputs may be broadcast."""

    TFLITE = ("MAXIMUM",)
    ONNX = onnx(CARRIED, "Max")
    RELAY = relay("maximum")
    LARGER = True


@frozen
class Minimum(_Extreme):
    """Element-wise minimum; inputs may be broadcast."""

    TFLITE = ("MINIMUM",)
    ONNX = onnx(CARRIED, "Min")
    RELAY = relay("minimum")
    LARGER = False


_ACTIVATED: Mapping[str, tuple[type[Clamped], type[_ClampedArithmetic]]] = {
    "ADD": (PlainAdd, Add),
    "SUB": (PlainSub, Sub),
    "MUL": (PlainMul, Mul),
    "DIV": (PlainDiv, Div),
}
"""Operators of plain numbers and of int8, by the name in TFLite."""


def from_foreign(node: ForeignNode) -> Nodes:
    """TFLite's arithmetic.  Raises UnsupportedError unless the tensors of MAXIMUM and MINIMUM share
    one scale."""
    match node.name:
        case "PRELU" if is_plain_foreign(node):
            return in_shape_of_output(node, _sloped(onnx_form(node, "PRelu")))
        case "PRELU":
            return elementwise_nodes(Prelu(), node, 2)
        case "ADD_N" if is_plain_foreign(node):
            return in_shape_of_output(node, _sum_of_all(onnx_form(node, "Sum")))
        case "ADD_N":
            raise node.unsupported("a sum of tensors that are not float32")
        case "SQUARED_DIFFERENCE":
            return typed_nodes(node, PlainSquaredDifference(), SquaredDifference())
        case "MAXIMUM" | "MINIMUM":
            op, plain = _extremes(node.name)
            if node.y.dtype not in plain.ARITHMETIC:
                types = (node.x.type, node.input(1).type, node.y.type)
                require_one_quantisation(types, "inputs and output")
            return typed_nodes(node, plain, op)
        case _:
            activation = fused_activation(node)
            plain, op = _ACTIVATED[node.name]
            return typed_nodes(node, plain(Limits.of(activation)), op(activation))


def _extremes(name: str) -> tuple[Maximum | Minimum, PlainMaximum | PlainMinimum]:
    larger = name in ("MAXIMUM", "Max")
    return (Maximum(), PlainMaximum()) if larger else (Minimum(), PlainMinimum())


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX Add, Sum of any number of tensors, Sub, Mul, PRelu, Max, Min."""
    match node.name:
        case "PRelu":
            return _sloped(node)
        case "Max" | "Min":
            return _extreme_of_all(node)
        case "Sum" | "Add" | "Mean" if len(node.inputs) != 2 or node.name == "Mean":
            return _sum_of_all(node)
        case "Sub":
            return exact_elementwise(node, Sub(), PlainSub(UNLIMITED))
        case "Mul":
            return exact_elementwise(node, Mul(), PlainMul(UNLIMITED))
        case _:
            return exact_elementwise(node, Add(), PlainAdd(UNLIMITED))


def _sum_of_all(node: OnnxNode) -> Nodes:
    real = RealNodes(node)
    total, *others = (real.input(k) for k, _ in enumerate(node.inputs))
    for other in others:
        total = real.apply(PlainAdd(UNLIMITED), total, other)
    if node.name == "Mean":
        total = real.apply(PlainDiv(UNLIMITED), total, float(len(node.inputs)))
    return real.result(total)


def _sloped(node: OnnxNode) -> Iterator[Made]:
    slopes = exact_operand(node, 1)
    if slopes is not None and node.y.quantisation is not None:
        yield node.made(Prelu(), node.x, slopes)
        return
    real = RealNodes(node)
    yield from real.result(real.apply(PlainPRelu(), real.input(0), real.input(1)))


def _extreme_of_all(node: OnnxNode) -> Iterator[Made]:
    """ONNX Max, Min; inputs are first requantised to the output's scale.  That is exact, because
    rounding is monotonic."""
    op, plain = _extremes(node.name)
    if is_real(node):
        real = RealNodes(node)
        found, *rest = (real.input(k) for k, _ in enumerate(node.inputs))
        for other in rest or [found]:
            found = real.apply(plain, found, other)
        yield from real.result(found)
        return
    values: list[Value] = []
    for k, _ in enumerate(node.inputs):
        value, made = in_scale_of_output(node, k)
        yield from made
        values.append(value)
    x, *others = values if len(values) > 1 else values * 2
    for k, other in enumerate(others[:-1]):
        step = node.between(op, x, other, label=f"of{k + 2}", like=x.quantisation)
        yield step
        x = step.output
    yield node.made(op, x, others[-1])
