"""GraphBuilder: builds a graph in Python, without a model file.

    >>> net = GraphBuilder("tiny")
    >>> y = net.conv2d(net.input((1, 8, 8, 3)), channels=4, kernel=3, activation="relu")
    >>> net.build(net.softmax(net.fully_connected(y, 10))).macs()
    9472

Methods take values and return the value that they compute.  Weights that the caller omits are
random (`SeededRandom`); scales, zero points and biases are calibrated on random inputs, which are
evaluated layer by layer (`calibration`).  Calibration samples of layers with random weights are
rounded in floating point and may differ by one step from the graph; others are exact.  The same
calls give the same bytes on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from penstock.frontends.calibrated_graph import (
    CalibratedGraph,
    WeightedLayer,
    Weights,
)
from penstock.frontends.calibration import quantisation as one_quantisation
from penstock.ir.graph import Graph, Value, Values
from penstock.ir.op import Op
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.opkit.activation import Activation
from penstock.opkit.lookup import Numerics
from penstock.opkit.sliding import Window
from penstock.ops.batch_matmul import BatchMatmul
from penstock.ops.binary import Add, Maximum, Minimum, Mul, Sub
from penstock.ops.comparisons import Compare, Relation
from penstock.ops.concatenation import Concatenation
from penstock.ops.conversions import Quantize
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected
from penstock.ops.pool import AveragePool2D, MaxPool2D
from penstock.ops.reshape import Reshape
from penstock.ops.row_vectors import Softmax
from penstock.ops.slice import along
from penstock.ops.unary import Elu, LeakyRelu, Logistic, Relu, Tanh

Pair = int | tuple[int, int]  # (rows, columns), or one number for both.
Padding = Literal["same", "valid"]
Clamp = Literal["none", "relu", "relu6", "relu_n1_to_1"]


def windows(
    graph: CalibratedGraph, x: Value, kernel: Pair, stride: Pair, dilation: Pair, padding: Padding
) -> tuple[Window, Window]:
    """Windows along rows and columns of x.  Raises UsageError for wrong arguments."""
    if padding not in get_args(Padding):
        raise graph.usage(f"padding is {padding!r}", get_args(Padding))
    extents = image(graph, x)[1:3]
    sizes = _pair(graph, kernel, "kernel")
    strides = _pair(graph, stride, "stride")
    dilations = _pair(graph, dilation, "dilation")
    make = Window.same if padding == "same" else _valid
    rows, columns = (make(*each) for each in zip(extents, sizes, strides, dilations, strict=True))
    return rows, columns


def image(graph: CalibratedGraph, x: Value) -> tuple[int, ...]:
    """The shape (N, H, W, C) of x.  Raises UsageError for another rank."""
    if x.rank != 4:
        raise graph.usage(f"input has shape {list(x.shape)}, its rank must be 4")
    return x.shape


def positive(graph: CalibratedGraph, number: int, role: str) -> int:
    """The number.  Raises UsageError if it is below 1."""
    if number < 1:
        raise graph.usage(f"{role} is {number}, must be at least 1")
    return number


def clamped(graph: CalibratedGraph, name: Clamp) -> Activation:
    """The activation of that name.  Raises UsageError for an unknown name."""
    if name not in get_args(Clamp):
        raise graph.usage(f"activation is {name!r}", get_args(Clamp))
    return Activation[name.upper()]


def _pair(graph: CalibratedGraph, number: Pair, role: str) -> tuple[int, int]:
    rows, columns = (number, number) if isinstance(number, int) else number
    return positive(graph, rows, role), positive(graph, columns, role)


def _valid(_: int, size: int, stride: int, dilation: int) -> Window:
    return Window(size, stride, dilation)


SOFTMAX = Quantisation((1 / 256,), (-128,))  # Source: TFLite quantisation specification, SOFTMAX.
TANH = Quantisation((1 / 128,), (0,))  # Source: TFLite quantisation specification, TANH.


class GraphBuilder:
    """Collects nodes; `build` returns the graph.

    `samples`: number of calibration inputs; more improve the statistics and take longer.  Nodes
    are named after their kind unless `name` is given; a number is appended to a name in use."""

    def __init__(self, name: str, seed: int = 0, samples: int = 1) -> None:
        self._graph = CalibratedGraph(name, seed, samples)

    def input(
        self,
        shape: Sequence[int],
        scale: float = 2 / 255,
        zero_point: int = -1,
        name: str = "input",
    ) -> Value:
        """An int8 input of the graph; by default for real values in [-1, 1]."""
        type = TensorType(tuple(shape), DType.INT8, one_quantisation(scale, zero_point))
        return self._graph.input(type, name)

    def constant(
        self,
        elements: Array,
        quantisation: Quantisation | None = None,
        name: str = "constant",
    ) -> Value:
        """A constant for `apply`; plain numbers without `quantisation`."""
        return self._graph.constant(elements, quantisation, name)

    def conv2d(
        self,
        x: Value,
        channels: int,
        kernel: Pair,
        stride: Pair = 1,
        padding: Padding = "same",
        activation: Clamp = "none",
        dilation: Pair = 1,
        groups: int = 1,
        weights: Weights | None = None,
        quantisation: Quantisation | None = None,
        name: str = "conv2d",
    ) -> Value:
        """Convolution with weights (channels, K, L, C / groups), one scale per output channel."""
        rows, columns = windows(self._graph, x, kernel, stride, dilation, padding)
        depth = x.shape[3]
        if min(groups, channels) < 1 or depth % groups or channels % groups:
            raise self._graph.usage(
                f"{depth} input and {channels} output channels in {groups} groups, "
                "must be multiples of the groups",
            )
        clamp = clamped(self._graph, activation)
        layer = WeightedLayer(
            Conv2D(rows, columns, clamp),
            clamp,
            shape=(channels, rows.size, columns.size, depth // groups),
            axis=0,
            per_channel=True,
        )
        return self._layer(layer, x, weights, quantisation, name)

    def depthwise_conv2d(
        self,
        x: Value,
        kernel: Pair,
        stride: Pair = 1,
        padding: Padding = "same",
        activation: Clamp = "none",
        dilation: Pair = 1,
        multiplier: int = 1,
        weights: Weights | None = None,
        quantisation: Quantisation | None = None,
        name: str = "depthwise_conv2d",
    ) -> Value:
        """Depthwise convolution with weights (1, K, L, C * multiplier), one scale per channel."""
        rows, columns = windows(self._graph, x, kernel, stride, dilation, padding)
        clamp = clamped(self._graph, activation)
        channels = x.shape[3] * positive(self._graph, multiplier, "multiplier")
        layer = WeightedLayer(
            DepthwiseConv2D(rows, columns, multiplier, clamp),
            clamp,
            shape=(1, rows.size, columns.size, channels),
            axis=3,
            per_channel=True,
        )
        return self._layer(layer, x, weights, quantisation, name)

    def fully_connected(
        self,
        x: Value,
        outputs: int,
        activation: Clamp = "none",
        weights: Weights | None = None,
        quantisation: Quantisation | None = None,
        name: str = "fully_connected",
    ) -> Value:
        """Dense layer on x as (N, I), with weights (outputs, I) and one scale by default."""
        depth = math.prod(x.shape[1:]) if x.rank > 1 else x.elements
        clamp = clamped(self._graph, activation)
        layer = WeightedLayer(
            FullyConnected(clamp),
            clamp,
            shape=(positive(self._graph, outputs, "outputs"), depth),
            axis=0,
            per_channel=False,
        )
        return self._layer(layer, x, weights, quantisation, name)

    def add(
        self,
        a: Value,
        b: Value,
        activation: Clamp = "none",
        quantisation: Quantisation | None = None,
        name: str = "add",
    ) -> Value:
        """Element-wise sum."""
        op = Add(clamped(self._graph, activation))
        return self.apply(op, a, b, quantisation=quantisation, name=name)

    def subtract(
        self,
        a: Value,
        b: Value,
        activation: Clamp = "none",
        quantisation: Quantisation | None = None,
        name: str = "subtract",
    ) -> Value:
        """Element-wise difference a - b."""
        op = Sub(clamped(self._graph, activation))
        return self.apply(op, a, b, quantisation=quantisation, name=name)

    def multiply(
        self,
        a: Value,
        b: Value,
        activation: Clamp = "none",
        quantisation: Quantisation | None = None,
        name: str = "multiply",
    ) -> Value:
        """Element-wise product."""
        op = Mul(clamped(self._graph, activation))
        return self.apply(op, a, b, quantisation=quantisation, name=name)

    def maximum(self, a: Value, b: Value, name: str = "maximum") -> Value:
        """Element-wise maximum, in a quantisation that covers both inputs."""
        a, b = self._alike((a, b))
        return self.apply(Maximum(), a, b, quantisation=a.quantisation, name=name)

    def minimum(self, a: Value, b: Value, name: str = "minimum") -> Value:
        """Element-wise minimum, in a quantisation that covers both inputs."""
        a, b = self._alike((a, b))
        return self.apply(Minimum(), a, b, quantisation=a.quantisation, name=name)

    def less(self, a: Value, b: Value, name: str = "less") -> Value:
        """Whether a < b, as booleans."""
        return self.apply(Compare(Relation.LESS), a, b, name=name)

    def less_equal(self, a: Value, b: Value, name: str = "less_equal") -> Value:
        """Whether a <= b, as booleans."""
        return self.apply(Compare(Relation.LESS_EQUAL), a, b, name=name)

    def greater(self, a: Value, b: Value, name: str = "greater") -> Value:
        """Whether a > b, as booleans."""
        return self.apply(Compare(Relation.GREATER), a, b, name=name)

    def greater_equal(self, a: Value, b: Value, name: str = "greater_equal") -> Value:
        """Whether a >= b, as booleans."""
        return self.apply(Compare(Relation.GREATER_EQUAL), a, b, name=name)

    def equal(self, a: Value, b: Value, name: str = "equal") -> Value:
        """Whether a = b, as booleans."""
        return self.apply(Compare(Relation.EQUAL), a, b, name=name)

    def relu(self, x: Value, name: str = "relu") -> Value:
        """max(x, 0)."""
        return self.apply(Relu(), x, name=name)

    def leaky_relu(self, x: Value, alpha: float = 0.2, name: str = "leaky_relu") -> Value:
        """x, times alpha where it is negative."""
        return self.apply(LeakyRelu(alpha), x, name=name)

    def elu(self, x: Value, alpha: float = 1.0, name: str = "elu") -> Value:
        """x, or alpha * (exp(x) - 1) where it is negative."""
        numerics = Numerics.TFLITE if alpha == 1 else Numerics.REAL  # TFLite's has no alpha.
        return self.apply(Elu(alpha, numerics), x, name=name)

    def tanh(self, x: Value, name: str = "tanh") -> Value:
        """Hyperbolic tangent."""
        return self.apply(Tanh(), x, quantisation=TANH, name=name)

    def sigmoid(self, x: Value, name: str = "sigmoid") -> Value:
        """1 / (1 + exp(-x))."""
        return self.apply(Logistic(), x, quantisation=SOFTMAX, name=name)

    def matmul(
        self,
        a: Value,
        b: Value,
        a_transposed: bool = False,
        b_transposed: bool = False,
        quantisation: Quantisation | None = None,
        name: str = "matmul",
    ) -> Value:
        """Products of matrices (.., M, K) and (.., K, N), of rank 3 or 4."""
        op = BatchMatmul(a_transposed, b_transposed)
        return self.apply(op, a, b, quantisation=quantisation, name=name)

    def concatenate(self, xs: Sequence[Value], axis: int = -1, name: str = "concatenate") -> Value:
        """All values one after the other along an axis, in a quantisation that covers them."""
        if not xs:
            raise self._graph.usage("there is no value to concatenate")
        alike = self._alike(xs)
        op = Concatenation(self._axis(xs[0], axis))
        return self.apply(op, *alike, quantisation=alike[0].quantisation, name=name)

    def split(
        self, x: Value, parts: int | Sequence[int], axis: int = -1, name: str = "split"
    ) -> Values:
        """The parts of x along an axis: a number of equal parts, or parts of the given sizes."""
        axis = self._axis(x, axis)
        extent = x.shape[axis]
        if isinstance(parts, int):
            if parts < 1 or extent % parts:
                raise self._graph.usage(f"{extent} elements along axis {axis} in {parts} parts")
            parts = [extent // parts] * parts
        if sum(parts) != extent or min(parts) < 1:
            sizes = ", ".join(map(str, parts))
            raise self._graph.usage(f"{extent} elements along axis {axis} in parts of {sizes}")
        found: list[Value] = []
        for k, size in enumerate(parts):
            op = along(x.shape, axis, sum(parts[:k]), size)
            found.append(self.apply(op, x, quantisation=x.quantisation, name=name))
        return tuple(found)

    def batch_norm(
        self,
        x: Value,
        mean: Array | None = None,
        variance: Array | None = None,
        gamma: Array | None = None,
        beta: Array | None = None,
        epsilon: float = 1e-5,
        activation: Clamp = "none",
        quantisation: Quantisation | None = None,
        name: str = "batch_norm",
    ) -> Value:
        """(x - mean) / sqrt(variance + epsilon) * gamma + beta, per channel: a product with one
        int8 constant and a sum with another.

        Real numbers of shape (C,).  Gamma and beta are random if they are omitted, mean and
        variance 0 and 1."""
        channels = x.shape[-1]
        given = {"mean": mean, "variance": variance, "gamma": gamma, "beta": beta}
        for role, found in given.items():
            if found is not None and np.shape(found) != (channels,):
                raise self._graph.usage(
                    f"{role} has shape {list(np.shape(found))}, must be {[channels]}"
                )
        drawn = self._graph.random().weights((2, channels)) / 127
        variance = np.ones(channels) if variance is None else variance
        factor = (drawn[0] if gamma is None else gamma) / np.sqrt(variance + epsilon)
        mean = np.zeros(channels) if mean is None else mean
        offset = (drawn[1] if beta is None else beta) - mean * factor
        scaled = self.apply(Mul(), x, self._real(factor, f"{name}/factor"), name=f"{name}/scaled")
        op = Add(clamped(self._graph, activation))
        shift = self._real(offset, f"{name}/offset")
        return self.apply(op, scaled, shift, quantisation=quantisation, name=name)

    def _real(self, elements: Array, name: str) -> Value:
        """A constant of real numbers, rounded to int8 with one scale."""
        scale = float(np.abs(elements).max()) / 127 or 1.0
        rounded = np.rint(elements / scale).astype(np.int8)
        return self.constant(rounded, one_quantisation(scale, 0), name)

    def _axis(self, x: Value, axis: int) -> int:
        if not -x.rank <= axis < x.rank:
            raise self._graph.usage(f"axis is {axis}, must be {-x.rank} to {x.rank - 1}")
        return axis % x.rank

    def _alike(self, xs: Sequence[Value]) -> Values:
        """The int8 values in one quantisation, which covers the range of each."""
        if len({x.quantisation for x in xs}) == 1:
            return tuple(xs)
        lower = min(x.scale * (-128 - x.zero_point) for x in xs)
        upper = max(x.scale * (127 - x.zero_point) for x in xs)
        scale = (upper - lower) / 255
        common = one_quantisation(scale, round(-128 - lower / scale))
        return tuple(
            x if x.quantisation == common else self.apply(Quantize(), x, quantisation=common)
            for x in xs
        )

    def average_pool2d(
        self,
        x: Value,
        kernel: Pair,
        stride: Pair | None = None,
        padding: Padding = "valid",
        name: str = "average_pool2d",
    ) -> Value:
        """Average pooling; `stride` defaults to the window's size."""
        pair = windows(self._graph, x, kernel, kernel if stride is None else stride, 1, padding)
        return self.apply(AveragePool2D(*pair), x, quantisation=x.quantisation, name=name)

    def max_pool2d(
        self,
        x: Value,
        kernel: Pair,
        stride: Pair | None = None,
        padding: Padding = "valid",
        name: str = "max_pool2d",
    ) -> Value:
        """Max pooling; `stride` defaults to the window's size."""
        pair = windows(self._graph, x, kernel, kernel if stride is None else stride, 1, padding)
        return self.apply(MaxPool2D(*pair), x, quantisation=x.quantisation, name=name)

    def global_average_pool(self, x: Value, name: str = "global_average_pool") -> Value:
        """Mean over all rows and columns: (N, H, W, C) to (N, 1, 1, C)."""
        _, height, width, _ = image(self._graph, x)
        return self.average_pool2d(x, (height, width), name=name)

    def softmax(self, x: Value, beta: float = 1.0, name: str = "softmax") -> Value:
        """Softmax over the last axis."""
        return self.apply(Softmax(beta), x, quantisation=SOFTMAX, name=name)

    def reshape(self, x: Value, shape: Sequence[int], name: str = "reshape") -> Value:
        """Reshape; one extent may be -1 and is inferred."""
        known = math.prod(extent for extent in shape if extent != -1)
        inferred = x.elements // known if known else 0
        full = tuple(inferred if extent == -1 else extent for extent in shape)
        return self.apply(Reshape(full), x, quantisation=x.quantisation, name=name)

    def apply(
        self,
        op: Op,
        *inputs: Value,
        quantisation: Quantisation | None = None,
        name: str = "",
    ) -> Value:
        """Applies any operator.

        Without `quantisation`, the output is calibrated (`OutputCalibration`).  Operators that fix
        the quantisation of their output, such as softmax, require it."""
        name = self._graph.free_name(name or type(op).__name__.lower())
        return self._graph.apply(op, inputs, quantisation, name)

    def build(self, *outputs: Value) -> Graph:
        """The graph of all nodes added so far.  Raises ModelError if it is not valid."""
        return self._graph.graph(outputs)

    def _layer(
        self,
        layer: WeightedLayer,
        x: Value,
        weights: Weights | None,
        quantisation: Quantisation | None,
        name: str,
    ) -> Value:
        name = self._graph.free_name(name)
        if weights is None:
            return layer.drawn(self._graph, x, quantisation, name)
        return layer.given(self._graph, x, weights, quantisation, name)
