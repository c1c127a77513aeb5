"""PlainSum: the sum of real numbers along axes, and ONNX's norms, which are made of it.

    x  float32, up to rank 4
    y  float32   extent 1 along `axes`; rounded after each addition, in order of indices, so that
                 rows and columns cannot be exchanged

Source: ONNX operator specification.  onnxruntime adds in another order, which changes the last bits
of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from penstock.ir.affine import Affine
from penstock.ir.foreign import Made
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Kernel, OperatorDefaults, Site, Work
from penstock.ir.operator_facts import AxisOrder, OnnxName, onnx
from penstock.ir.region import Region
from penstock.ir.tensor import Array, DType, TensorType
from penstock.opkit import reduction
from penstock.opkit.checks import require, require_dtype
from penstock.opkit.nodes import RealNodes
from penstock.opkit.onnx_constants import real_numbers
from penstock.opkit.samples import reals, sample
from penstock.ops.abs import PlainAbs
from penstock.ops.add import PlainAdd
from penstock.ops.div import PlainDiv
from penstock.ops.exp import PlainExp
from penstock.ops.extremes import PlainMaximum
from penstock.ops.log import PlainLog
from penstock.ops.mul import PlainMul
from penstock.ops.plain_functions import Square
from penstock.ops.reduce_extreme import ReduceMax
from penstock.ops.rsqrt import PlainRsqrt
from penstock.ops.sqrt import PlainSqrt
from penstock.ops.sub import PlainSub

_NORMS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
    "LpNormalization",
)


@dataclass(frozen=True, slots=True)
class PlainSum(OperatorDefaults):
    """Sum of real numbers along `axes`, which keep extent 1."""

    axes: tuple[int, ...]

    ONNX = (
        onnx(OnnxName(AxisOrder.ALIKE, floats=True), *_NORMS)
        | onnx(OnnxName(AxisOrder.MODEL, floats=True), "LayerNormalization")
        | onnx(
            OnnxName(AxisOrder.CHANNELS_LAST, floats=True),
            "InstanceNormalization",
            "GroupNormalization",
        )
    )

    def result_type(self, inputs: tuple[TensorType, ...]) -> TensorType:
        require(len(inputs) == 1, f"sum has {len(inputs)} inputs, must have 1")
        require_dtype(inputs[0], (DType.FLOAT32,), "input")
        return reduction.result_type(inputs, self.axes, DType.FLOAT32, (DType.FLOAT32,))

    def evaluate(self, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        (read,) = self.needs(site, out)
        x = inputs[0][read.slices]
        kept = tuple(axis for axis in range(x.ndim) if axis not in self.axes)
        moved = x.transpose(*kept, *sorted(self.axes)).reshape(
            *(x.shape[axis] for axis in kept), -1
        )
        with np.errstate(all="ignore"):
            return np.add.accumulate(moved, axis=-1)[..., -1].reshape(out.shape)

    def needs(self, site: Site, out: Region) -> tuple[Region, ...]:
        return reduction.needs(site, self.axes, out)

    def affine(self, site: Site) -> tuple[Affine, ...]:
        return reduction.affine(site, self.axes)

    def work(self, site: Site, out: Region) -> Work:
        return reduction.work(site, self.axes, out)

    def kernel(self, site: Site) -> Kernel:
        return Kernel("total_f32", reduction.params(site, self.axes), by_rows=True)


LEAST_NORM = 2.0**-100
"""Smaller norms divide as this one, so that a vector of zeros remains one, as in onnxruntime."""


def from_onnx(node: OnnxNode) -> Iterable[Made]:
    """ONNX norms and normalisations."""
    match node.name:
        case "LpNormalization":
            return _divided_by_norm(node)
        case "LayerNormalization":
            return _layer_norm(node)
        case "InstanceNormalization":
            return _instance_norm(node)
        case "GroupNormalization":
            return _group_norm(node)
        case _:
            return reduction.onnx_nodes(node, _norm)


def _norm(node: OnnxNode, axes: reduction.Axes) -> Iterable[Made]:
    """ONNX ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp, ReduceSumSquare."""
    real = RealNodes(node)
    x = real.input(0)
    match node.name:
        case "ReduceL1":
            y = real.apply(PlainSum(axes), real.apply(PlainAbs(), x))
        case "ReduceL2":
            y = real.apply(PlainSqrt(), _sum_of_squares(real, x, axes))
        case "ReduceSumSquare":
            y = _sum_of_squares(real, x, axes)
        case "ReduceLogSum":
            y = real.apply(PlainLog(), real.apply(PlainSum(axes), x))
        case _:
            largest = real.real(real.apply(ReduceMax(axes), node.input(0)))
            powers = real.apply(PlainExp(), real.apply(PlainSub(), x, largest))
            logarithm = real.apply(PlainLog(), real.apply(PlainSum(axes), powers))
            y = real.apply(PlainAdd(), logarithm, largest)
    return real.result(y)


def _sum_of_squares(real: RealNodes, x: Value, axes: tuple[int, ...]) -> Value:
    return real.apply(PlainSum(axes), real.apply(Square(), x))


def _divided_by_norm(node: OnnxNode) -> Iterable[Made]:
    """ONNX LpNormalization."""
    real, axes, p = RealNodes(node), (node.axis(node.integer("axis", -1)),), node.integer("p", 2)
    require(p in (1, 2), f"p is {p}, must be 1 or 2")
    x = real.input(0)
    if p == 1:
        norm = real.apply(PlainSum(axes), real.apply(PlainAbs(), x))
    else:
        norm = real.apply(PlainSqrt(), _sum_of_squares(real, x, axes))
    divisor = real.apply(PlainMaximum(), norm, real.constant(LEAST_NORM, "least_norm"))
    return real.result(real.apply(PlainDiv(), real.input(0), divisor))


def _layer_norm(node: OnnxNode) -> Iterable[Made]:
    """ONNX LayerNormalization, of vectors with a row each."""
    if any(output.name for output in node.outputs[1:]):
        raise node.unsupported("means and deviations are outputs, must not be")
    x = node.input(0)
    shape, axis = x.type.shape, node.integer("axis", -1)
    require(-len(shape) <= axis < len(shape), f"axis is {axis}, rank is {len(shape)}")
    inner = shape[axis % len(shape) :]
    vectors = (math.prod(shape) // math.prod(inner), 1, math.prod(inner))
    real = RealNodes(node)
    y = _standardised(real, real.reshape(x, vectors), (2,))
    y = _scaled(node, real, y, lambda numbers: np.broadcast_to(numbers, inner).ravel())
    return real.result(real.reshape(y, shape))


def _instance_norm(node: OnnxNode) -> Iterable[Made]:
    """ONNX InstanceNormalization."""
    real = RealNodes(node)
    y = _standardised(real, node.input(0), (1, 2))
    return real.result(_scaled(node, real, y, lambda numbers: numbers))


def _group_norm(node: OnnxNode) -> Iterable[Made]:
    """ONNX GroupNormalization.  Before opset 21, scale and offset are those of groups."""
    x, groups = node.input(0), node.integer("num_groups")
    batch, height, width, channels = x.type.shape
    require(
        groups > 0 and channels % groups == 0,
        f"num_groups is {groups}, there are {channels} channels",
    )
    count = channels // groups
    real = RealNodes(node)
    y = _standardised(real, real.reshape(x, (batch, height * width, groups, count)), (1, 3))
    y = real.reshape(y, x.type.shape)
    times = count if node.opset < 21 else 1
    return real.result(_scaled(node, real, y, lambda numbers: np.repeat(numbers, times)))


def _standardised(real: RealNodes, x: Value, axes: tuple[int, ...]) -> Value:
    """x less its mean along axes, divided by its standard deviation.

    The mean is corrected by that of the differences: where all elements are equal, so that the
    deviation is the root of epsilon, the rounding of the mean would count many times."""
    count = real.constant(math.prod(x.type.shape[axis] for axis in axes), "count")
    epsilon = real.constant(real.node.real("epsilon", 1e-5), "epsilon")
    mean = real.apply(PlainDiv(), real.apply(PlainSum(axes), real.real(x)), count)
    near = real.apply(PlainSub(), real.real(x), mean)
    rest = real.apply(PlainDiv(), real.apply(PlainSum(axes), near), count)
    centred = real.apply(PlainSub(), near, rest)
    variance = real.apply(PlainDiv(), _sum_of_squares(real, centred, axes), count)
    factor = real.apply(PlainRsqrt(), real.apply(PlainAdd(), variance, epsilon))
    return real.apply(PlainMul(), centred, factor)


def _scaled(node: OnnxNode, real: RealNodes, y: Value, arranged: Callable[[Array], Array]) -> Value:
    """y times input 1, plus input 2 if there is one, whose constants are arranged to fit y."""
    y = real.apply(PlainMul(), y, real.constant(arranged(real_numbers(node, 1)), "factors"))
    if node.optional(2) is None:
        return y
    return real.apply(PlainAdd(), y, real.constant(arranged(real_numbers(node, 2)), "offsets"))


SAMPLES = (
    sample(PlainSum((1, 2)), reals(1, 5, 3, 4)),
    sample(PlainSum((3,)), reals(2, 3, 2, 7)),
    sample(PlainSum((0, 2)), reals(3, 2, 5)),
)
