"""GroupingProblem: nodes that each write one tensor, to be parted into groups.

Nodes stand in a topological order and are known by their index in it; a set of nodes is a bit mask,
bit i for node i.  Tensor i is the one that node i writes; tensor `len(nodes) + k` is input k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.errors import InternalError
from penstock.scheduling.step_table import StepTable, bits, mask_of, table_of
from penstock.scheduling.steps import OrderProblem, Step


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A node: bytes of what it writes and of its weights, and the tensors that it reads.

    `pointwise`: a tile of its output needs but the same tile of its inputs, so that running it with
    its producer computes nothing twice."""

    name: str
    output_bytes: int
    weight_bytes: int
    reads: tuple[int, ...]
    pointwise: bool = False


@dataclass(frozen=True)
class GroupingProblem:
    """Nodes in topological order, bytes of each input, and the nodes whose tensors are outputs."""

    nodes: tuple[GroupNode, ...]
    input_bytes: tuple[int, ...]
    outputs: frozenset[int]

    def __post_init__(self) -> None:
        tensors = range(len(self.nodes) + len(self.input_bytes))
        for i, node in enumerate(self.nodes):
            if any(t not in tensors or i <= t < len(self.nodes) for t in node.reads):
                raise InternalError(
                    "grouping-001", "a node reads what is not written before it", where=node.name
                )
        if any(i not in range(len(self.nodes)) for i in self.outputs):
            raise InternalError("grouping-002", "an output is no node's")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each tensor."""
        return (*(node.output_bytes for node in self.nodes), *self.input_bytes)

    @cached_property
    def readers(self) -> tuple[int, ...]:
        """Of each tensor, the nodes that read it."""
        found = [0] * len(self.sizes)
        for i, node in enumerate(self.nodes):
            for tensor in node.reads:
                found[tensor] |= 1 << i
        return tuple(found)

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """Of each node, the tensors that it reads, as a mask of tensors."""
        return tuple(mask_of(node.reads) for node in self.nodes)

    @cached_property
    def before(self) -> tuple[int, ...]:
        """Of each node, those that write what it reads."""
        return tuple(reads & self.everything for reads in self.reads)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        found: list[int] = []
        for before in self.before:
            above = before
            for i in bits(before):
                above |= found[i]
            found.append(above)
        return tuple(found)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        found = [0] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            for reader in bits(self.readers[i]):
                found[i] |= 1 << reader | found[reader]
        return tuple(found)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """Nodes on the longest path from a start to each node, itself not counted."""
        found: list[int] = []
        for before in self.before:
            found.append(max((found[i] + 1 for i in bits(before)), default=0))
        return tuple(found)

    @property
    def everything(self) -> int:
        return (1 << len(self.nodes)) - 1

    @cached_property
    def output_mask(self) -> int:
        return mask_of(self.outputs)

    def read_from_outside(self, group: int) -> int:
        """Tensors that a group reads and does not write, as a mask of tensors."""
        read = 0
        for i in bits(group):
            read |= self.reads[i]
        return read & ~group

    def wanted_outside(self, group: int) -> int:
        """Nodes of a group whose tensors are outputs, or are read outside of it."""
        wanted = group & self.output_mask
        for i in bits(group & ~wanted):
            if self.readers[i] & ~group:
                wanted |= 1 << i
        return wanted

    @cached_property
    def table(self) -> StepTable:
        """All nodes as steps, for orders of them."""
        return table_of(self.steps(self.everything))

    def steps(self, group: int) -> OrderProblem:
        """The nodes of a group as steps, in order: what comes from outside is there from the start
        and goes with its last reader; what is wanted outside stays."""
        outside = list(bits(self.read_from_outside(group)))
        steps = tuple(
            Step(f"n{i}", tuple(f"t{t}" for t in dict.fromkeys(self.nodes[i].reads)), (f"t{i}",))
            for i in bits(group)
        )
        tensors = (*outside, *bits(group))
        return OrderProblem(
            steps,
            tuple((f"t{t}", self.sizes[t]) for t in tensors),
            tuple(f"t{t}" for t in outside),
            tuple(f"t{i}" for i in bits(self.wanted_outside(group))),
        )

    def between(self, writer: int, reader: int) -> int:
        """Two nodes, and those on paths between them: they are in every group of the two."""
        inner = self.descendants[writer] & self.ancestors[reader]
        return inner | 1 << writer | 1 << reader

    def piece(self, nodes: Sequence[int], outputs: Iterable[int] = ()) -> GroupingProblem:
        """Some nodes, sorted, and of all tensors those that they write; more outputs than those of
        the whole."""
        index = {i: k for k, i in enumerate(nodes)}
        found = tuple(
            replace(node, reads=tuple(index[t] for t in node.reads if t in index))
            for node in (self.nodes[i] for i in nodes)
        )
        kept = {index[i] for i in (*self.outputs, *outputs) if i in index}
        return GroupingProblem(found, (), frozenset(kept))


def problem_of(
    names: Sequence[str],
    edges: Sequence[tuple[int, int]],
    output_bytes: Sequence[int],
    weight_bytes: Sequence[int],
    outputs: Sequence[int],
) -> GroupingProblem:
    """A problem without inputs, from edges between nodes that stand in topological order."""
    reads: list[list[int]] = [[] for _ in names]
    for writer, reader in edges:
        reads[reader].append(writer)
    nodes = tuple(
        GroupNode(name, output_bytes[i], weight_bytes[i], tuple(sorted(reads[i])))
        for i, name in enumerate(names)
    )
    return GroupingProblem(nodes, (), frozenset(outputs))
