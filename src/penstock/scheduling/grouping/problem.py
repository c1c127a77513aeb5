"""GroupingProblem: nodes, each of which writes one tensor, to be partitioned into groups.

Nodes are numbered in a topological order.  A set of nodes is a bit mask, bit i for node i.  Tensor
i is the one that node i writes; tensor `len(nodes) + k` is network input k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.errors import InternalError
from penstock.scheduling.order.step_table import StepTable, bit_mask, bits, step_table
from penstock.scheduling.order.steps import OrderProblem, OrderStep


@dataclass(frozen=True, slots=True)
class GroupNode:
    """A node of the graph, which writes one tensor.

    output_bytes: bytes of that tensor.
    reads: indices of the tensors that the node reads.  Index i stands for the output of node i; the
        network inputs follow the outputs of all nodes.
    """

    name: str
    output_bytes: int
    weight_bytes: int
    reads: tuple[int, ...]


@dataclass(frozen=True)
class GroupingProblem:
    """A network whose nodes are to be partitioned into groups.

    nodes: in a topological order.  Node i writes tensor i.
    input_bytes: bytes of each network input; input k is tensor `len(nodes) + k`.
    outputs: indices of the nodes whose tensors are network outputs.
    """

    nodes: tuple[GroupNode, ...]
    input_bytes: tuple[int, ...]
    outputs: frozenset[int]

    def __post_init__(self) -> None:
        tensors = range(len(self.nodes) + len(self.input_bytes))
        for i, node in enumerate(self.nodes):
            if any(t not in tensors or i <= t < len(self.nodes) for t in node.reads):
                raise InternalError(
                    "grouping-001",
                    "a node reads a tensor not written before it",
                    where=node.name,
                )
        if any(i not in range(len(self.nodes)) for i in self.outputs):
            raise InternalError("grouping-002", "an output is not the tensor of a node")

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each tensor: first the outputs of the nodes, then the network inputs."""
        return (*(node.output_bytes for node in self.nodes), *self.input_bytes)

    @cached_property
    def readers(self) -> tuple[int, ...]:
        """For each tensor, the mask of the nodes that read it."""
        found = [0] * len(self.sizes)
        for i, node in enumerate(self.nodes):
            for tensor in node.reads:
                found[tensor] |= 1 << i
        return tuple(found)

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """For each node, the mask of the tensors that it reads."""
        return tuple(bit_mask(node.reads) for node in self.nodes)

    @cached_property
    def before(self) -> tuple[int, ...]:
        """For each node, the mask of the nodes that write the tensors it reads."""
        return tuple(reads & self.everything for reads in self.reads)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """For each node, the mask of all nodes on which it directly or indirectly depends."""
        found: list[int] = []
        for before in self.before:
            above = before
            for i in bits(before):
                above |= found[i]
            found.append(above)
        return tuple(found)

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """For each node, the mask of all nodes that directly or indirectly depend on it."""
        found = [0] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            for reader in bits(self.readers[i]):
                found[i] |= 1 << reader | found[reader]
        return tuple(found)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """For each node, the number of edges on the longest path that ends at it."""
        found: list[int] = []
        for before in self.before:
            found.append(max((found[i] + 1 for i in bits(before)), default=0))
        return tuple(found)

    @property
    def everything(self) -> int:
        """The mask of all nodes."""
        return (1 << len(self.nodes)) - 1

    @cached_property
    def output_mask(self) -> int:
        """The mask of the nodes whose tensors are network outputs."""
        return bit_mask(self.outputs)

    def read_from_outside(self, group: int) -> int:
        """Return the mask of the tensors that a group (a node mask) reads but does not write."""
        read = 0
        for i in bits(group):
            read |= self.reads[i]
        return read & ~group

    def wanted_outside(self, group: int) -> int:
        """Return the mask of the nodes of a group whose tensors are used outside of the group.

        These tensors are network outputs, or nodes outside of the group read them.
        """
        wanted = group & self.output_mask
        for i in bits(group & ~wanted):
            if self.readers[i] & ~group:
                wanted |= 1 << i
        return wanted

    def kept_inside(self, group: int) -> int:
        """Return the mask of the nodes of a group whose tensors only nodes of the group use.

        group: mask of nodes.
        """
        return group & ~self.wanted_outside(group)

    def is_joined_inside(self, group: int) -> bool:
        """Return whether the tensors that only a group uses connect all nodes of the group.

        Such a tensor connects the nodes that write and read it.  If the nodes are not all
        connected, the group saves no more transfers than its components as groups of their own.
        group: mask of nodes.
        """
        kept = self.kept_inside(group)
        found, fresh = 0, group & -group
        while fresh:
            found |= fresh
            near = 0
            for i in bits(fresh):
                near |= self.before[i] & kept
                near |= self.readers[i] if kept >> i & 1 else 0
            for i in bits(near & kept):
                near |= self.readers[i]
            fresh = near & ~found
        return found == group

    def kept_piece(self, group: int) -> GroupingProblem:
        """Return the problem that consists of the nodes of a group, with only on-chip tensors.

        It serves to find an order of the nodes in which these tensors fit on chip.  A tensor that
        is used outside of the group is not kept on chip, so it has a size of 0 bytes in the result.
        The tensors that the group reads from outside are left out.
        group: mask of nodes.  Node k of the result is the k-th node of the group, in ascending
            order of the indices.
        """
        nodes, kept = tuple(bits(group)), self.kept_inside(group)
        piece = self.piece(nodes, bits(group & ~kept))
        sized = zip(piece.nodes, nodes, strict=True)
        resized = (n if kept >> i & 1 else replace(n, output_bytes=0) for n, i in sized)
        return replace(piece, nodes=tuple(resized))

    @cached_property
    def table(self) -> StepTable:
        """Table of the dependences and the memory of all nodes, for the search for an order."""
        return step_table(self.steps(self.everything))

    def steps(self, group: int) -> OrderProblem:
        """Return the problem of ordering the nodes of a group for least peak memory.

        In the problem (`OrderProblem`), the nodes are called steps: step k is the k-th node of the
        group, in ascending order of the node indices.  Tensors that the group reads from outside
        are inputs of the problem.  Tensors that are used outside are outputs.
        group: mask of nodes.
        """
        outside = list(bits(self.read_from_outside(group)))
        steps = tuple(
            OrderStep(
                f"n{i}", tuple(f"t{t}" for t in dict.fromkeys(self.nodes[i].reads)), (f"t{i}",)
            )
            for i in bits(group)
        )
        tensors = (*outside, *bits(group))
        return OrderProblem(
            steps,
            tuple((f"t{t}", self.sizes[t]) for t in tensors),
            tuple(f"t{t}" for t in outside),
            tuple(f"t{i}" for i in bits(self.wanted_outside(group))),
        )

    def piece(self, nodes: Sequence[int], outputs: Iterable[int] = ()) -> GroupingProblem:
        """Return the problem that consists of some nodes and the tensors that these nodes write.

        All other tensors, also those that the nodes read, are left out.
        nodes: indices of the nodes, sorted; node nodes[k] becomes node k.
        outputs: indices of nodes whose tensors become outputs, in addition to the network's
            outputs.
        """
        index = {i: k for k, i in enumerate(nodes)}
        found = tuple(
            replace(node, reads=tuple(index[t] for t in node.reads if t in index))
            for node in (self.nodes[i] for i in nodes)
        )
        kept = {index[i] for i in (*self.outputs, *outputs) if i in index}
        return GroupingProblem(found, (), frozenset(kept))
