"""WeightedLayer: an operator with weights and bias, given by the user or random and calibrated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.frontends import calibration
from penstock.frontends.calibrated_graph import CalibratedGraph, joined
from penstock.ir.graph import Value
from penstock.ir.op import Op
from penstock.ir.tensor import Array, DType, Quantisation, TensorType
from penstock.opkit.activation import Activation


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights given by the user.

    `elements`: int8, in the operator's order of axes (OKLI, 1KLO or OI).
    `scales`: one, or one per output channel.
    `bias`: int32, one per output channel; None for zeros."""

    elements: Array
    scales: tuple[float, ...]
    bias: Array | None = None


@dataclass(frozen=True, slots=True)
class WeightedLayer:
    """A layer to be added to a graph.

    `shape`: of the weights; `axis`: their axis of output channels.
    `per_channel`: whether each output channel has a scale of its own.
    `accumulate`: computes the sums before bias, (N, ..., O), from input elements and weights."""

    op: Op
    activation: Activation
    shape: tuple[int, ...]
    axis: int
    per_channel: bool
    accumulate: Callable[[Array, Array], Array]

    def given(
        self,
        graph: CalibratedGraph,
        x: Value,
        weights: Weights,
        chosen: Quantisation | None,
        name: str,
    ) -> Value:
        """Adds the layer with the user's weights.  Raises UsageError if they do not fit."""
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

    def drawn(
        self, graph: CalibratedGraph, x: Value, chosen: Quantisation | None, name: str
    ) -> Value:
        """Adds the layer with random weights and calibrated scales and biases.

        Calibration samples of the output are rounded in single precision and may differ by one step
        from the operator's result."""
        weights = TensorType(self.shape, DType.INT8)
        bias = TensorType((self.shape[self.axis],), DType.INT32)
        result = graph.result(self.op, (x.type, weights, bias), name)
        random = graph.random()
        elements = random.weights(self.shape)
        samples = graph.samples(x)
        sums = self.accumulate(joined(samples), elements)
        fit = calibration.fit(sums, x.type.scale, self.activation, random, self.per_channel)
        operands = self._operands(graph, x, elements, fit.scales, fit.bias, name)
        chosen = chosen or calibration.layer_quantisation(
            fit.interval(sums, x.type.scale), self.activation, few=calibration.are_few(sums)
        )
        output = Value(name, TensorType(result.shape, DType.INT8, chosen))
        y = fit.outputs(sums, x.type.scale, output.type, self.activation.bounds(output.type))
        return graph.append(self.op, operands, output, tuple(np.split(y, len(samples))))

    def _operands(
        self,
        graph: CalibratedGraph,
        x: Value,
        elements: Array,
        scales: tuple[float, ...],
        bias: Array,
        name: str,
    ) -> tuple[Value, Value, Value]:
        """x, weights and bias; the bias has the product of the scales of x and weights."""
        zeros = (0,) * len(scales)
        w = Quantisation(scales, zeros, self.axis if len(scales) > 1 else None)
        products = tuple(float(np.float32(x.type.scale * s)) for s in scales)
        b = Quantisation(products, zeros, 0 if len(scales) > 1 else None)
        return (
            x,
            graph.constant(elements, w, f"{name}/weights"),
            graph.constant(bias, b, f"{name}/bias"),
        )
