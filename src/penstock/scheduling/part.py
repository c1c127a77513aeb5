"""Part: nodes that run as one unit on one engine; Parts: the graph cut into them.

A tensor's *storage* is the memory that holds it.  A value that is the bytes of another under a new
shape (an alias) shares its storage, so nodes that only make aliases are no parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.op import Kernel


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that run as one unit: for now one node, with the kernel that serves it."""

    nodes: tuple[Node, ...]
    engine: str
    kernel: Kernel

    @property
    def name(self) -> str:
        return self.output.name

    @property
    def output(self) -> Value:
        return self.nodes[-1].output

    @property
    def variable_inputs(self) -> tuple[Value, ...]:
        """Values that the part reads and does not make."""
        made = {node.output.name for node in self.nodes}
        every = (v for node in self.nodes for v in node.variable_inputs if v.name not in made)
        return tuple({v.name: v for v in every}.values())


@dataclass(frozen=True, slots=True)
class Parts:
    """The graph as parts, in the graph's order."""

    graph: Graph
    parts: tuple[Part, ...]

    def storages(self) -> Mapping[str, str]:
        """By name of a computed value or input, the name of the value whose storage holds it."""
        found = {value.name: value.name for value in self.graph.variables()}
        for node in self.graph.nodes:
            if node.op.ALIAS and node.inputs[0].data is None:
                found[node.output.name] = found[node.inputs[0].name]
        return found
