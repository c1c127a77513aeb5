"""GrowingGraph: nodes as they are added, each with its elements on the calibration inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import ModelError, UsageError
from penstock.frontends.dice import Dice
from penstock.frontends.trial import Trial
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Op
from penstock.ir.tensor import Array, Data, DType, Quantisation, TensorType
from penstock.ir.verify import verify


class GrowingGraph:
    """The one mutable thing; `graph` freezes it.  `samples`: how many calibration inputs."""

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
        """Adds an int8 input, with calibration elements drawn."""
        if min(type.shape, default=1) < 1:
            raise self.usage(f"input has shape {list(type.shape)}, extents must be at least 1")
        if not type.scale > 0 or not -128 <= type.zero_point < 128:
            raise self.usage(
                f"input has scale {type.scale} and zero point {type.zero_point}, must be positive "
                "and within [-128, 128)"
            )
        value = Value(self.free_name(name), type)
        dice = Dice(self._seed, 0, len(self._inputs))
        self._inputs.append(value)
        self._samples[value.name] = tuple(dice.activations(type.shape) for _ in range(self._count))
        return value

    def constant(self, elements: Array, chosen: Quantisation | None, name: str) -> Value:
        """A constant value of the elements' own type."""
        if elements.dtype.name not in {dtype.value for dtype in DType}:
            raise self.usage(f"constant holds {elements.dtype}, must hold one of the graph's types")
        type = TensorType(elements.shape, DType(elements.dtype.name), chosen)
        return Value(self.free_name(name), type, Data.of(elements))

    def dice(self) -> Dice:
        """The numbers of the next node: those of other nodes do not depend on them."""
        return Dice(self._seed, 1, len(self._nodes))

    def samples(self, value: Value) -> tuple[Array, ...]:
        """Elements of a value on each calibration input."""
        if value.data is not None:
            return (value.data.array(value.type),) * self._count
        found = self._samples.get(value.name)
        if found is None:
            raise self.usage(f'value "{value.name}" was made by another builder')
        return found

    def apply(
        self, op: Op, inputs: tuple[Value, ...], chosen: Quantisation | None, name: str
    ) -> Value:
        """Adds an operator under a free name; what quantisation is not chosen is found by trial."""
        result = self.result(op, tuple(v.type for v in inputs), name)
        elements = tuple(zip(*(self.samples(v) for v in inputs), strict=True))
        trial = Trial(op, inputs, result, elements)
        chosen = chosen or trial.quantisation()
        output = Value(name, TensorType(result.shape, result.dtype, chosen))
        return self.append(op, inputs, output, trial.outputs(chosen))

    def append(
        self, op: Op, inputs: tuple[Value, ...], output: Value, samples: tuple[Array, ...]
    ) -> Value:
        """Adds a node whose elements on the calibration inputs are known."""
        self._nodes.append(Node(op, inputs, output, self._where(output.name)))
        self._samples[output.name] = samples
        return output

    def result(self, op: Op, inputs: tuple[TensorType, ...], name: str) -> TensorType:
        """The operator's result type.  Raises ModelError where the inputs do not fit together."""
        try:
            return op.result_type(inputs)
        except ModelError as error:
            raise error.at(self._where(name)) from error

    def free_name(self, wanted: str) -> str:
        """`wanted`, with a number behind it where it is taken; taken from now on."""
        name, number = wanted, 1
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def usage(self, what: str, allowed: Sequence[str] = ()) -> UsageError:
        """An error of the caller at the node that is being added; to be raised by the caller."""
        help = f"one of: {', '.join(allowed)}" if allowed else "see the method's docstring"
        return UsageError("usage-101", what, where=self._where(""), help=help)

    def graph(self, outputs: tuple[Value, ...]) -> Graph:
        """The graph of everything so far.  Raises ModelError where it breaks a rule of graphs."""
        graph = Graph(self.name, tuple(self._inputs), outputs, tuple(self._nodes))
        verify(graph)
        return graph

    def _where(self, name: str) -> str:
        label = f' "{name}"' if name else ""
        return f"{self.name}: node {len(self._nodes)}{label}"


def joined(samples: tuple[Array, ...]) -> Array:
    """Samples of one value as one batch."""
    return samples[0] if len(samples) == 1 else np.concatenate(samples)
