"""Sums and means along axes, and ONNX's norms, which are made of sums of real numbers.

    x  int8 or float32, up to rank 4
    y  as x   extent 1 along `axes`; int8 with its own scale and zero point

Sources: TFLite MEAN, SUM; `QuantizedMeanOrSum` (`reference/reduce.h`), as TFLite Micro calls it.
ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from penstock.fixedpoint import multiply
from penstock.frozen import frozen
from penstock.ir.foreign import ForeignNode, Nodes
from penstock.ir.graph import Value
from penstock.ir.onnx_node import OnnxNode
from penstock.ir.op import Arrays, Kernel, Site, Types, row_kernel
from penstock.ir.operator_facts import REALS, AxisOrder, OnnxName, RelayName, onnx, relay
from penstock.ir.tensor import Array, DType, Region, TensorType
from penstock.opkit import reduction
from penstock.opkit.activation import Limits
from penstock.opkit.checks import require, require_count, require_dtype
from penstock.opkit.lookup import saturated
from penstock.opkit.nodes import (
    in_shape_of_output,
    is_plain_foreign,
    is_real,
    onnx_form,
    reshaped,
)
from penstock.opkit.onnx_constants import real_numbers
from penstock.opkit.real_nodes import RealNodes
from penstock.opkit.reduction import AlongAxes, Axes, Reduction
from penstock.opkit.requantise import Multipliers, fitting_multiplier
from penstock.opkit.sliding import Window
from penstock.ops.formulas import Term
from penstock.ops.gather import Gather
from penstock.ops.pad import Pad
from penstock.ops.plain import (
    PlainAdd,
    PlainDiv,
    PlainExp,
    PlainLog,
    PlainMul,
    PlainRelu,
    PlainRsqrt,
    PlainSqrt,
    Power,
    Square,
)
from penstock.ops.plain_reduction import PlainReduction, ReductionFunction
from penstock.ops.reshape import Reshape
from penstock.ops.running import Halves, RequantiseLast, RunningSum
from penstock.ops.slice import along


@frozen
class _ScaledTotal(AlongAxes):
    """Base of Mean and Sum: a sum along axes, requantised.

        x  int8
        y  int8   clamp(zero_y + M * sum (x - zero_x))

    M is scale_x / scale_y, divided by the number of elements for a mean.  The reference divides
    the integer multiplier, which may then be below 2**30 and loses bits.

    Source: TFLite `QuantizedMeanOrSum` (`reference/reduce.h`), as TFLite Micro calls it."""

    MEAN: ClassVar[bool]

    def result_type(self, inputs: Types) -> TensorType:
        return self.reduced_type(inputs, DType.INT8)

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        (read,) = self.needs(site, out)
        x = site.x
        elements = inputs[0][read.slices].astype(np.int64) - x.zero_point
        total = elements.sum(axis=self.axes, keepdims=True)
        scaled = multiply(total, *self._multiplier(site)) + site.output.zero_point
        return saturated(scaled)

    def kernel(self, site: Site) -> Kernel:
        multiplier, shift = self._multiplier(site)
        return row_kernel(
            "total_s8",
            self.params(site),
            in_zero=site.x.zero_point,
            multiplier=multiplier,
            shift=shift,
            out_zero=site.output.zero_point,
        )

    def halves(self, site: Site) -> Halves | None:
        """Sums accumulated over the rows of an image, then requantised."""
        x = site.x
        if x.rank != 4 or x.shape[0] != 1 or 1 not in self.axes or 3 in self.axes:
            return None
        columns = Window(x.shape[2]) if 2 in self.axes else Window(1)
        totals = RunningSum(x.shape[1], columns, x.zero_point)
        multiplier, shift = self._multiplier(site)
        channels = x.shape[3]
        every = Multipliers((multiplier,) * channels, (shift,) * channels)
        count = self.count(site)
        least, most = x.dtype.lower - x.zero_point, x.dtype.upper - 1 - x.zero_point
        reach = ((count * least, count * most + 1),) * channels
        return Halves(totals, totals.result_type((x,)), RequantiseLast(every, reach=reach))

    def _multiplier(self, site: Site) -> tuple[int, int]:
        count = self.count(site)
        real = site.x.scale / site.output.scale
        multiplier, shift = fitting_multiplier(real, count * 255)
        if not self.MEAN:
            return multiplier, shift
        # As the reference: shifted to the left by as much as the division takes away, but no
        # further than 64 bits hold.
        up = min(count.bit_length() - 1, 32, 31 + shift)
        return (multiplier << up) // count, shift - up


_NORMS = (
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
    "LpNormalization",
)


@frozen
class PlainSum(Reduction):
    """The sum of real numbers along axes, and ONNX's norms, which are made of it.

        x  float32, up to rank 4
        y  float32   extent 1 along `axes`; rounded after each addition, in order of indices, so
                     that rows and columns cannot be exchanged

    Source: ONNX operator specification.  onnxruntime adds in another order, which changes the
    last bits of the sum."""

    axes: tuple[int, ...]

    ONNX = (
        onnx(REALS, *_NORMS)
        | onnx(OnnxName(AxisOrder.MODEL, floats=True), "LayerNormalization")
        | onnx(
            OnnxName(AxisOrder.CHANNELS_LAST, floats=True),
            "InstanceNormalization",
            "GroupNormalization",
            "LRN",
        )
    )

    RELAY = relay("sum")

    def result_type(self, inputs: Types) -> TensorType:
        (x,) = require_count(inputs, 1, "sum")
        require_dtype(x, "input", DType.FLOAT32)
        return self.reduced_type(inputs, DType.FLOAT32, (DType.FLOAT32,))

    @property
    def reduced_axes(self) -> Axes:
        return self.axes

    def evaluate(self, site: Site, inputs: Arrays, out: Region) -> Array:
        x = self.in_order(site, inputs, out)
        with np.errstate(all="ignore"):
            return np.add.accumulate(x, axis=-1)[..., -1].reshape(out.shape)

    def kernel(self, site: Site) -> Kernel:
        return row_kernel("total_f32", self.params(site))


LEAST_NORM = 2.0**-100
"""Smaller norms divide as this one, so that a vector of zeros remains one, as in onnxruntime."""


def _norm(node: OnnxNode, axes: Axes) -> Nodes:
    """ONNX ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp, ReduceSumSquare."""
    real = RealNodes(node)
    x, total = Term(real, real.input(0)), PlainSum(axes)
    match node.name:
        case "ReduceL1":
            y = abs(x).to(total)
        case "ReduceL2":
            y = x.to(Square()).to(total).to(PlainSqrt())
        case "ReduceSumSquare":
            y = x.to(Square()).to(total)
        case "ReduceLogSum":
            y = x.to(total).to(PlainLog())
        case _:
            extreme = PlainReduction(ReductionFunction.MAX, axes)
            largest = Term(real, real.input(0)).to(extreme)
            y = (x - largest).to(PlainExp()).to(total).to(PlainLog()) + largest
    return real.result(y.value)


def divided_by_norm(node: OnnxNode) -> Nodes:
    """ONNX LpNormalization; norms below `LEAST_NORM` divide as this one."""
    real, total, p = (
        RealNodes(node),
        PlainSum((node.axis(node.integer("axis", -1)),)),
        node.integer("p", 2),
    )
    require(p in (1, 2), f"p is {p}, must be 1 or 2")
    x = Term(real, real.input(0))
    norm = abs(x).to(total) if p == 1 else x.to(Square()).to(total).to(PlainSqrt())
    divisor = norm.to(PlainRelu(Limits(LEAST_NORM, math.inf)))  # unlike a maximum, keeps NaN
    return real.result((Term(real, real.input(0)) / divisor).value)


def _layer_norm(node: OnnxNode) -> Nodes:
    """ONNX LayerNormalization, of vectors with a row each."""
    x = node.x
    shape, axis = x.shape, node.integer("axis", -1)
    require(-len(shape) <= axis < len(shape), f"axis is {axis}, rank is {len(shape)}")
    inner = shape[axis % len(shape) :]
    vectors = (math.prod(shape) // math.prod(inner), 1, math.prod(inner))
    real = RealNodes(node)
    y, mean, factor = _standardised(real, real.reshape(x, vectors), (2,))
    y = _scaled(node, real, y, lambda numbers: np.broadcast_to(numbers, inner).ravel())
    kept = (*shape[: len(shape) - len(inner)], *(1,) * len(inner))
    every = (real.reshape(y, shape), *(real.reshape(v, kept) for v in (mean, factor)))
    wanted = {k: v for k, v in enumerate(every) if k < len(node.outputs) and node.output(k).name}
    return real.results(wanted)


def _instance_norm(node: OnnxNode) -> Nodes:
    """ONNX InstanceNormalization."""
    real, x = RealNodes(node), node.x
    images = real.reshape(x, (x.shape[0], -1, *x.shape[-2:]))
    y, _, _ = _standardised(real, images, (1, 2))
    return real.result(real.reshape(_scaled(node, real, y, lambda numbers: numbers), x.shape))


def _group_norm(node: OnnxNode) -> Nodes:
    """ONNX GroupNormalization.  Before opset 21, scale and offset are those of groups."""
    x, groups = node.x, node.integer("num_groups")
    batch, *_, channels = x.shape
    require(
        groups > 0 and channels % groups == 0,
        f"num_groups is {groups}, there are {channels} channels",
    )
    count = channels // groups
    real = RealNodes(node)
    y, _, _ = _standardised(real, real.reshape(x, (batch, -1, groups, count)), (1, 3))
    y = real.reshape(y, x.shape)
    times = count if node.opset < 21 else 1
    return real.result(_scaled(node, real, y, lambda numbers: np.repeat(numbers, times)))


def _standardised(real: RealNodes, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value, Value]:
    """x less its mean along axes, divided by its standard deviation; the mean, and the reciprocal
    of the deviation.

    The mean is corrected by that of the differences: where all elements are equal, so that the
    deviation is the root of epsilon, the rounding of the mean would count many times."""
    count = real.constant(math.prod(x.shape[axis] for axis in axes), "count")
    epsilon = real.constant(real.node.real("epsilon", 1e-5), "epsilon")
    total = PlainSum(axes)
    mean = Term(real, real.real(x)).to(total) / count
    near = Term(real, real.real(x)) - mean
    centred = near - near.to(total) / count
    variance = centred.to(Square()).to(total) / count
    factor = (variance + epsilon).to(PlainRsqrt())
    return (centred * factor).value, mean.value, factor.value


def _scaled(node: OnnxNode, real: RealNodes, y: Value, arranged: Callable[[Array], Array]) -> Value:
    """y times input 1, plus input 2 if there is one, whose constants are arranged to fit y."""
    for k, op, label in ((1, PlainMul(), "factors"), (2, PlainAdd(), "offsets")):
        given = node.optional(k)
        if given is None:
            continue
        if given.data is not None:
            numbers = real.constant(arranged(real_numbers(node, k)), label)
        else:
            numbers = _arranged(real, real.input(k), arranged)
        y = real.apply(op, y, numbers)
    return y


def _arranged(real: RealNodes, numbers: Value, arranged: Callable[[Array], Array]) -> Value:
    """Computed numbers, arranged as constants are."""
    places = arranged(np.arange(numbers.elements).reshape(numbers.shape))
    flat = real.reshape(numbers, (numbers.elements,))
    if places.ravel().tolist() == list(range(numbers.elements)):
        return real.reshape(flat, places.shape)
    return real.apply(Gather(0, tuple(int(k) for k in places.ravel())), flat)


def _local_response(node: OnnxNode) -> Nodes:
    """ONNX LRN: x / (bias + alpha / size * squares of near channels) ** beta."""
    real, size = RealNodes(node), node.integer("size")
    x = Term(real, real.input(0))
    before, (*outer, channels) = (size - 1) // 2, x.value.shape
    require(size > 0, f"size is {size}, must be positive")
    zeros = (0,) * len(outer)
    pads = Pad((*zeros, before), (*zeros, size - 1 - before), 0)
    wide = x.to(Square()).to(pads)
    places = (along(wide.value.shape, len(outer), k, channels) for k in range(size))
    total, *others = map(wide.to, places)
    for other in others:
        total += other
    share = real.constant(node.real("alpha", 1e-4) / size, "share")
    bias = real.constant(node.real("bias", 1.0), "bias")
    beta = real.constant(node.real("beta", 0.75), "beta")
    power = (total * share + bias).to(Power(), beta)
    return real.result((Term(real, real.input(0)) / power).value)


def _covers_image(op: Mean, site: Site) -> bool:
    """Whether the mean is taken over all rows and columns of images."""
    return site.x.rank == 4 and op.axes == (1, 2)


@frozen
class Mean(_ScaledTotal):
    """The mean along axes.

        x  int8, up to rank 4
        y  int8   its own scale and zero point

    Source: TFLite MEAN; `reference/reduce.h`."""

    TFLITE = ("MEAN",)
    ONNX = onnx(OnnxName(AxisOrder.CHANNELS_LAST, floats=True), "GlobalAveragePool") | onnx(
        REALS, "ReduceMean"
    )
    RELAY = (
        *relay("mean"),
        RelayName("nn.global_avg_pool2d", condition=_covers_image),
        RelayName("nn.adaptive_avg_pool2d", condition=_covers_image),
    )
    MEAN = True


def _pooled(node: OnnxNode) -> Nodes:
    """The mean of images, or of volumes, whose planes count as rows of one image."""
    x, y = node.x, node.y
    batch, *extents, channels = x.shape
    if len(extents) == 2:
        yield from _mean(node, (1, 2))
        return
    image, made = reshaped(x, (batch, extents[0], math.prod(extents[1:]), channels), f"{y.name}/x")
    yield from made
    mean = replace(y, name=f"{y.name}/mean")
    steps = [*_mean(replace(node, inputs=(image,), outputs=(mean,)), (1, 2))]
    yield from steps
    yield node.made(Reshape((batch, *(1 for _ in extents), channels)), steps[-1].output)


def _mean(node: OnnxNode, axes: Axes) -> Nodes:
    if is_real(node):
        real = RealNodes(node)
        total = real.apply(PlainSum(axes), real.input(0))
        count = math.prod(node.x.shape[axis] for axis in axes)
        yield from real.result(real.apply(PlainDiv(), total, real.constant(count, "count")))
    else:
        yield node.made(Mean(axes), node.x)


@frozen
class Sum(_ScaledTotal):
    """The sum along axes.

        x  int8, up to rank 4
        y  int8   its own scale and zero point

    Source: TFLite SUM, as computed by TFLite Micro; `reference/reduce.h`."""

    TFLITE = ("SUM", "LOCAL_RESPONSE_NORMALIZATION")
    ONNX = onnx(REALS, "ReduceSum")
    RELAY = relay("sum")
    MEAN = False


def _sum(node: OnnxNode, axes: Axes) -> Nodes:
    if is_real(node):
        real = RealNodes(node)
        yield from real.result(real.apply(PlainSum(axes), real.input(0)))
    else:
        yield node.made(Sum(axes), node.x)


def from_foreign(node: ForeignNode) -> Nodes:
    if node.name == "LOCAL_RESPONSE_NORMALIZATION":
        size = 2 * node.integer("radius") + 1
        numbers = {name: node.real(name) for name in ("bias", "beta")}
        form = onnx_form(node, "LRN", node.x, size=size, alpha=node.real("alpha") * size, **numbers)
        return in_shape_of_output(node, _local_response(form))
    if not is_plain_foreign(node):
        return reduction.understood(node, Mean if node.name == "MEAN" else Sum)
    name = "ReduceMean" if node.name == "MEAN" else "ReduceSum"
    return in_shape_of_output(node, from_onnx(reduction.onnx_form_of(node, name)))


def from_onnx(node: OnnxNode) -> Nodes:
    """ONNX GlobalAveragePool, ReduceMean, ReduceSum, norms and normalisations."""
    match node.name:
        case "GlobalAveragePool":
            return _pooled(node)
        case "ReduceMean":
            return reduction.onnx_nodes(node, _mean)
        case "ReduceSum":
            return reduction.onnx_nodes(node, _sum)
        case "LpNormalization":
            return divided_by_norm(node)
        case "LayerNormalization":
            return _layer_norm(node)
        case "InstanceNormalization":
            return _instance_norm(node)
        case "LRN":
            return _local_response(node)
        case "GroupNormalization":
            return _group_norm(node)
        case _:
            return reduction.onnx_nodes(node, _norm)
