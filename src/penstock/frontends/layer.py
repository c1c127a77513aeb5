"""Layer: an operator with weights and bias, whose weights are given, or drawn and calibrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.frontends import calibration
from penstock.frontends.growing import GrowingGraph, joined
from penstock.ir.graph import Value
from penstock.ir.op import Op
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.ops.activation import Activation


@dataclass(frozen=True, slots=True)
class Weights:
    """Given weights: int8 elements as the operator wants them (OKLI, 1KLO or OI), one scale or one
    per output channel, and int32 biases (None: zeros)."""

    elements: Array
    scales: tuple[float, ...]
    bias: Array | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """`axis`: of the weights' output channels, with scales of their own where `per_channel`.
    `accumulate`: from input elements (N, ...) and weights the sums before bias (N, ..., O)."""

    op: Op
    activation: Activation
    shape: tuple[int, ...]
    axis: int
    per_channel: bool
    accumulate: Callable[[Array, Array], Array]

    def given(
        self,
        graph: GrowingGraph,
        x: Value,
        weights: Weights,
        chosen: Quantisation | None,
        name: str,
    ) -> Value:
        """Adds the layer with the given weights, under a free name."""
        channels = self.shape[self.axis]
        if weights.elements.shape != self.shape or weights.elements.dtype != np.int8:
            found = f"{weights.elements.dtype}{list(weights.elements.shape)}"
            raise graph.usage(f"weights are {found}, must be int8{list(self.shape)}")
        if len(weights.scales) not in (1, channels) or min(weights.scales) <= 0:
            raise graph.usage(
                f"weights have {len(weights.scales)} scales, must have 1 or {channels}, positive"
            )
        bias = np.zeros(channels, np.int32) if weights.bias is None else weights.bias
        scales = tuple(float(np.float32(s)) for s in weights.scales)
        operands = self._operands(graph, x, weights.elements, scales, bias, name)
        return graph.apply(self.op, operands, chosen, name)

    def drawn(self, graph: GrowingGraph, x: Value, chosen: Quantisation | None, name: str) -> Value:
        """Adds the layer under a free name, with drawn weights, scales and biases calibrated.

        The elements that are carried along are rounded in single precision and may differ by one
        from the operator's."""
        weights = TensorType(self.shape, DType.INT8)
        bias = TensorType((self.shape[self.axis],), DType.INT32)
        result = graph.result(self.op, (x.type, weights, bias), name)
        dice = graph.dice()
        elements = dice.weights(self.shape)
        samples = graph.samples(x)
        sums = self.accumulate(joined(samples), elements)
        fit = calibration.fit(sums, x.type.scale, self.activation, dice, self.per_channel)
        operands = self._operands(graph, x, elements, fit.scales, fit.bias, name)
        chosen = chosen or calibration.layer_quantisation(
            fit.interval(sums, x.type.scale), self.activation, few=calibration.are_few(sums)
        )
        output = Value(name, TensorType(result.shape, DType.INT8, chosen))
        y = fit.outputs(sums, x.type.scale, output.type, self.activation.bounds(output.type))
        return graph.append(self.op, operands, output, tuple(np.split(y, len(samples))))

    def _operands(
        self,
        graph: GrowingGraph,
        x: Value,
        elements: Array,
        scales: tuple[float, ...],
        bias: Array,
        name: str,
    ) -> tuple[Value, Value, Value]:
        """x, weights and bias, whose scales are the products of x's and the weights'."""
        zeros = (0,) * len(scales)
        w = Quantisation(scales, zeros, self.axis if len(scales) > 1 else None)
        products = tuple(float(np.float32(x.type.scale * s)) for s in scales)
        b = Quantisation(products, zeros, 0 if len(scales) > 1 else None)
        return (
            x,
            graph.constant(elements, w, f"{name}/weights"),
            graph.constant(bias, b, f"{name}/bias"),
        )
