"""Value, Node, Graph: what is computed, in which types.  Frozen; nodes stand in topological order.

Values are known by their names, which are unique in a graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import count

from penstock.brief import Brief
from penstock.ir.composite import Composite
from penstock.ir.op import Op, Site, Work
from penstock.ir.region import Region
from penstock.ir.tensor import Data, TensorType


@dataclass(frozen=True, slots=True, repr=False)
class Value(Brief):
    """A tensor: computed, or constant where it has `data`.

    `origin`: its index in the model file, by which ground truth is compared; None where it is ours.
    """

    name: str
    type: TensorType
    data: Data | None = None
    origin: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Node(Brief):
    """One operator between its inputs and its output.  `name` is the output's; `origin` says where
    it stands in the model file, in the user's words."""

    op: Op
    inputs: tuple[Value, ...]
    output: Value
    origin: str = ""

    @property
    def name(self) -> str:
        return self.output.name

    @property
    def kind(self) -> str:
        """The operator's name, or the pattern's that found a composite."""
        return self.op.name if isinstance(self.op, Composite) else type(self.op).__name__

    @property
    def site(self) -> Site:
        return Site(
            tuple(v.type for v in self.inputs),
            self.output.type,
            tuple(v.data for v in self.inputs),
        )

    @property
    def variable_inputs(self) -> tuple[Value, ...]:
        """Inputs that are computed, not constant."""
        return tuple(v for v in self.inputs if v.data is None)


@dataclass(frozen=True, slots=True, repr=False)
class Graph(Brief):
    """Nodes in topological order between inputs and outputs."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]

    def producers(self) -> Mapping[str, Node]:
        """By name of a value, the node that computes it."""
        return {node.output.name: node for node in self.nodes}

    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """By name of a value that is read, the nodes that read it, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(v.name for v in node.inputs):
                found.setdefault(value, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    def variables(self) -> tuple[Value, ...]:
        """Inputs of the graph, then every computed value in order."""
        return (*self.inputs, *(node.output for node in self.nodes))

    def constants(self) -> tuple[Value, ...]:
        """Constant values that a node reads, each once, in order of first use."""
        every = (v for node in self.nodes for v in node.inputs if v.data is not None)
        return tuple({v.name: v for v in every}.values())

    def names(self) -> frozenset[str]:
        """Names of all values, including those inside composites."""
        inside = (n for node in self.nodes if isinstance(node.op, Composite) for n in node.op.nodes)
        every = (v.name for n in (*self.nodes, *inside) for v in (*n.inputs, n.output))
        return frozenset((*(v.name for v in (*self.inputs, *self.outputs)), *every))

    def macs(self) -> int:
        """Nominal multiply-accumulates of one inference, padding taps included."""
        return sum(whole_work(node).macs for node in self.nodes)

    def with_nodes(self, nodes: tuple[Node, ...]) -> Graph:
        return replace(self, nodes=nodes)


def free_name(name: str, taken: Collection[str]) -> str:
    """`name`, followed by a number if it is one of `taken`.

    >>> free_name("y", {"x"}), free_name("x", {"x", "x#2"})
    ('y', 'x#3')
    """
    candidates = (name if k == 1 else f"{name}#{k}" for k in count(1))
    return next(candidate for candidate in candidates if candidate not in taken)


def whole_work(node: Node) -> Work:
    """Work of computing the node's whole output."""
    return node.op.work(node.site, Region.whole(node.output.type.shape))
