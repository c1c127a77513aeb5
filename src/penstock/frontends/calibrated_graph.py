"""CalibratedGraph: a graph under construction, with the values of its tensors on calibration
inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import ModelError, UsageError
from penstock.frontends import calibration
from penstock.frontends.calibration import (
    FEW_ELEMENTS,
    SeededRandom,
    fitted_quantisation,
    quantisation,
)
from penstock.frozen import frozen
from penstock.ir.graph import Graph, Node, Value, Values
from penstock.ir.op import Op, Site, Types
from penstock.ir.tensor import (
    FILE_TYPES,
    Array,
    Data,
    DType,
    Quantisation,
    Region,
    TensorType,
)
from penstock.ir.verify import verify
from penstock.opkit.activation import Activation
from penstock.opkit.layers import Layer

STEP = 4.0  # Factor between candidate scales.
MOST_CANDIDATES = 12
# Factor by which a scale is so coarse that computed elements become 0; moved elements do not.
COARSE = 2.0**16


@frozen
class OutputCalibration:
    """An operator, its inputs, and the elements of the inputs on each sample: the quantisation of
    its output follows from evaluations with candidate scales.  Nothing is assumed about what it
    computes."""

    op: Op
    inputs: Values
    result: TensorType
    samples: tuple[tuple[Array, ...], ...]

    def outputs(self, chosen: Quantisation | None, most: int | None = None) -> tuple[Array, ...]:
        """The operator's whole output on each sample, or on the first `most`.

        `chosen`: the output's quantisation."""
        output = TensorType(self.result.shape, self.result.dtype, chosen)
        types = tuple(v.type for v in self.inputs)
        site = Site(types, output, tuple(v.data for v in self.inputs))
        whole = Region.whole(output.shape)
        return tuple(self.op.evaluate(site, elements, whole) for elements in self.samples[:most])

    def quantisation(self) -> Quantisation | None:
        """The output's quantisation.

        Operators that move or pool elements keep that of input 0; the outputs of others use the
        range of their element type."""
        if self.result.dtype not in (DType.INT8, DType.INT16):
            return None
        if self._moves_elements():
            return self.inputs[0].quantisation
        scale, ys = self._fitting()
        lower = scale * min(int(y.min()) for y in ys)
        upper = scale * max(int(y.max()) for y in ys)
        elements = sum(y.size for y in ys)
        return fitted_quantisation(lower, upper, self.result.dtype, few=elements < FEW_ELEMENTS)

    def _moves_elements(self) -> bool:
        if self.op.ALIAS:
            return True
        first = self.inputs[0].scale
        usual, coarse = (self.outputs(quantisation(first * f, 0), 1) for f in (1.0, COARSE))
        return all(np.array_equal(a, b) and np.any(a) for a, b in zip(usual, coarse, strict=True))

    def _fitting(self) -> tuple[float, tuple[Array, ...]]:
        """A scale at which nothing is clipped and the largest magnitude is at least an eighth of
        the range, with the outputs; the last candidate if all outputs are 0."""
        least, most = self.result.dtype.lower, self.result.dtype.upper - 1
        scale, ys = self.inputs[0].scale, ()
        for _ in range(MOST_CANDIDATES):
            ys = self.outputs(quantisation(scale, 0))
            clipped = any(np.any((y == least) | (y == most)) for y in ys)
            if not clipped and max(int(abs(y.astype(np.int64)).max()) for y in ys) >= most // 8:
                break
            scale = scale * STEP if clipped else scale / STEP
        return scale, ys


class CalibratedGraph:
    """Nodes in order of addition; `graph` returns an immutable graph.

    `samples`: number of calibration inputs."""

    def __init__(self, name: str, seed: int, samples: int) -> None:
        self.name = name
        self._nodes: list[Node] = []
        if seed < 0 or samples < 1:
            raise self.usage(
                f"seed is {seed} and samples are {samples}, must be at least 0 and at least 1"
            )
        self._seed = seed
        self._count = samples
        self._inputs: list[Value] = []
        self._samples: dict[str, tuple[Array, ...]] = {}
        self._taken: set[str] = set()

    def input(self, type: TensorType, name: str) -> Value:
        """Adds an int8 input and draws its calibration elements."""
        if min(type.shape, default=1) < 1:
            raise self.usage(f"input has shape {list(type.shape)}, extents must be at least 1")
        if not type.scale > 0 or not -128 <= type.zero_point < 128:
            raise self.usage(
                f"input has scale {type.scale} and zero point {type.zero_point}, must be positive "
                "and within [-128, 128)"
            )
        value = Value(self.free_name(name), type)
        random = SeededRandom(self._seed, 0, len(self._inputs))
        self._inputs.append(value)
        self._samples[value.name] = tuple(
            random.activations(type.shape) for _ in range(self._count)
        )
        return value

    def constant(self, elements: Array, chosen: Quantisation | None, name: str) -> Value:
        """A constant; its element type is that of the array."""
        if elements.dtype.name not in FILE_TYPES:
            raise self.usage(f"constant holds {elements.dtype}, must hold one of the graph's types")
        type = TensorType(elements.shape, DType(elements.dtype.name), chosen)
        return Value(self.free_name(name), type, Data.of(elements))

    def random(self) -> SeededRandom:
        """The random source of the next node, independent of the other nodes' sources."""
        return SeededRandom(self._seed, 1, len(self._nodes))

    def samples(self, value: Value) -> tuple[Array, ...]:
        """Elements of a value per calibration input.  Raises UsageError for an unknown value."""
        if value.data is not None:
            return (value.array,) * self._count
        found = self._samples.get(value.name)
        if found is None:
            raise self.usage(f'value "{value.name}" was made by another builder')
        return found

    def apply(self, op: Op, inputs: Values, chosen: Quantisation | None, name: str) -> Value:
        """Adds an operator.  Its output is quantised as `chosen`, else by `OutputCalibration`."""
        result = self.result(op, tuple(v.type for v in inputs), name)
        elements = tuple(zip(*(self.samples(v) for v in inputs), strict=True))
        calibration = OutputCalibration(op, inputs, result, elements)
        chosen = chosen or calibration.quantisation()
        output = Value(name, TensorType(result.shape, result.dtype, chosen))
        return self.append(op, inputs, output, calibration.outputs(chosen))

    def append(self, op: Op, inputs: Values, output: Value, samples: tuple[Array, ...]) -> Value:
        """Adds a node whose output on the calibration inputs is known."""
        self._nodes.append(Node(op, inputs, output, self._where(output.name)))
        self._samples[output.name] = samples
        return output

    def result(self, op: Op, inputs: Types, name: str) -> TensorType:
        """The operator's result type.  Raises ModelError if the inputs are inconsistent."""
        try:
            return op.result_type(inputs)
        except ModelError as error:
            raise error.at(self._where(name)) from error

    def free_name(self, wanted: str) -> str:
        """Reserves and returns `wanted`, with a number appended if it is taken."""
        name, number = wanted, 1
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def usage(self, what: str, allowed: Sequence[str] = ()) -> UsageError:
        """An error at the node that is being added, to be raised by the caller."""
        help = f"one of: {', '.join(allowed)}" if allowed else "see the method's docstring"
        return UsageError("usage-101", what, where=self._where(""), help=help)

    def graph(self, outputs: Values) -> Graph:
        """The graph of all nodes added so far.  Raises ModelError if it is not valid."""
        graph = Graph(self.name, tuple(self._inputs), outputs, tuple(self._nodes))
        verify(graph)
        return graph

    def _where(self, name: str) -> str:
        label = f' "{name}"' if name else ""
        return f"{self.name}: node {len(self._nodes)}{label}"


def joined(samples: tuple[Array, ...]) -> Array:
    """Samples of one value, concatenated along the batch axis."""
    return samples[0] if len(samples) == 1 else np.concatenate(samples)


# WeightedLayer: an operator with weights and bias, given by the user or random and calibrated.


@frozen
class Weights:
    """Weights given by the user.

    `elements`: int8, in the operator's order of axes (OKLI, 1KLO or OI).
    `scales`: one, or one per output channel.
    `bias`: int32, one per output channel; None for zeros."""

    elements: Array
    scales: tuple[float, ...]
    bias: Array | None = None


@frozen
class WeightedLayer:
    """A layer to be added to a graph.

    `shape`: of the weights; `axis`: their axis of output channels.
    `per_channel`: whether each output channel has a scale of its own."""

    op: Layer
    activation: Activation
    shape: tuple[int, ...]
    axis: int
    per_channel: bool

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
        batch = len(samples) * result.shape[0]
        whole = Region.whole((batch, *result.shape[1:]))
        sums = self.op.sums(joined(samples), x.zero_point, elements, whole)
        fit = calibration.fit(sums, x.scale, self.activation, random, self.per_channel)
        operands = self._operands(graph, x, elements, fit.scales, fit.bias, name)
        chosen = chosen or calibration.layer_quantisation(
            fit.interval(sums, x.scale), self.activation, few=calibration.are_few(sums)
        )
        output = Value(name, TensorType(result.shape, DType.INT8, chosen))
        y = fit.outputs(sums, x.scale, output.type, self.activation.bounds(output.type))
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
        """X, weights and bias; the bias has the product of the scales of x and weights."""
        zeros = (0,) * len(scales)
        w = Quantisation(scales, zeros, self.axis if len(scales) > 1 else None)
        products = tuple(float(np.float32(x.scale * s)) for s in scales)
        b = Quantisation(products, zeros, 0 if len(scales) > 1 else None)
        return (
            x,
            graph.constant(elements, w, f"{name}/weights"),
            graph.constant(bias, b, f"{name}/bias"),
        )
