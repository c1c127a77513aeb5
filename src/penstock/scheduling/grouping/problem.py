"""GroupingProblem: nodes, each of which writes one tensor, to be partitioned into groups.

Nodes are numbered in a topological order.  A set of nodes is a bit mask, bit i for node i.  Tensor
i is the one that node i writes; tensor `len(nodes) + k` is network input k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from penstock.errors import CapacityError, InternalError
from penstock.frozen import frozen
from penstock.scheduling.order.steps import (
    OrderProblem,
    OrderStep,
    StepTable,
    bit_mask,
    bits,
    step_table,
)


@frozen
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


Column = npt.NDArray[np.int64]


class IntervalCosts(NamedTuple):
    """Costs of the groups of consecutive nodes that begin at one position of an order.

    feasible[k]: whether the first k + 1 nodes from that position can be one group.
    costs[k]: cost of this group; meaningless if it is infeasible.
    """

    costs: Column
    feasible: npt.NDArray[np.bool_]


class GroupCost(Protocol):
    """Protocol of a cost function: the non-negative cost of running a set of nodes as one group.

    A set of nodes is a bit mask: bit i for node i.
    """

    @property
    def problem(self) -> GroupingProblem:
        """The grouping problem whose groups are evaluated."""
        ...

    def of(self, group: int) -> int | None:
        """Return the cost of a group; None if the nodes cannot be one group.

        group: mask of nodes.
        """
        ...

    def hopeless(self, group: int) -> bool:
        """Return True if every group of two or more nodes that contains `group` is infeasible.

        group: mask of nodes.  False proves nothing.
        """
        ...

    def least(self, region: int) -> Callable[[int], int]:
        """Return a function that computes lower bounds of the cost of nodes of a region.

        However the region is partitioned into groups, those of the nodes in a mask cost at least
        what the function returns for it, if the other nodes of the region run before them.
        region: mask of nodes such that no path between two of them leaves the region.
        """
        ...


class OrderCost(GroupCost, Protocol):
    """A group cost that also evaluates groups of consecutive nodes of an order."""

    @property
    def undecided(self) -> int:
        """Number of sets of nodes that were rejected as groups although they may be feasible."""
        ...

    def tie(self, group: int) -> int:
        """Return the secondary cost of a group.

        Of several groupings of equal cost, the one with the least sum of secondary costs is
        preferred.
        group: mask of nodes.
        """
        ...

    def interval_costs(self, order: Sequence[int], lower: int, upper: int) -> IntervalCosts:
        """Return the costs of the groups order[lower:k] for k = lower + 1, .., upper.

        order: node indices.

        The result ends early if larger groups are unlikely to be feasible.
        """
        ...


def total_cost(cost: GroupCost, groups: Iterable[int]) -> int | None:
    """Return the sum of the costs of several groups; None if one of them is infeasible.

    groups: node masks.
    """
    total = 0
    for group in groups:
        found = cost.of(group)
        if found is None:
            return None
        total += found
    return total


@frozen
class Grouping:
    """A partition of nodes into groups.

    groups: bit masks of nodes, in a topological order of the groups.
    cost: sum of the costs of the groups.
    bound: proven lower bound of the cost of any grouping; 0 if none has been computed.
    work: sum of the sizes (numbers of nodes) of the groups that searches have examined.
    """

    groups: tuple[int, ...]
    cost: int
    bound: int = 0
    work: int = 0

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no grouping costs less."""
        return self.cost == self.bound


def ordered_grouping(groups: Iterable[int], cost: GroupCost) -> Grouping:
    """Sort groups in a topological order, and return them with their total cost.

    groups: bit masks of nodes.

    Raises CapacityError if one of the masks cannot be a group.
    """
    order = runnable(cost.problem, groups)
    assert order is not None, "groups depend on each other in a cycle"
    total = 0
    for group in order:
        found = cost.of(group)
        if found is None:
            raise no_group(cost.problem, group)
        total += found
    return Grouping(order, total)


def no_group(problem: GroupingProblem, group: int) -> CapacityError:
    """Return the error to raise if a node exceeds the capacity of a group, even on its own.

    group: mask of the node.
    """
    names = ", ".join(problem.nodes[i].name for i in bits(group))
    return CapacityError(
        "grouping-003",
        "a single node exceeds the capacity of a group",
        where=names,
        why="its weights or tensors do not fit, even if the node is a group of its own",
        help="raise the capacity, or permit groups of one node that exceed it",
    )


def runnable(problem: GroupingProblem, groups: Iterable[int]) -> tuple[int, ...] | None:
    """Return groups in an order in which they can run one after the other.

    The result is None if the groups depend on each other in a cycle.  The result is the same
    whatever the order in which the groups are given.
    groups: node masks.
    """
    some = sorted(groups, key=lambda group: group & -group)
    of = group_by_node(some)
    waits = [_writers(problem, group, of) for group in some]
    readers: list[list[int]] = [[] for _ in some]
    for g, writers in enumerate(waits):
        for writer in writers:
            readers[writer].append(g)
    ready = [g for g, writers in enumerate(waits) if not writers]
    order: list[int] = []
    for g in ready:  # the list grows during the loop
        order.append(some[g])
        for reader in readers[g]:
            waits[reader].discard(g)
            if not waits[reader]:
                ready.append(reader)
    return tuple(order) if len(order) == len(some) else None


def _writers(problem: GroupingProblem, group: int, of: dict[int, int]) -> set[int]:
    """Return the indices of the groups whose tensors a group reads.

    group: mask of nodes.
    of: index of the group of each node; nodes without an entry are ignored.
    """
    nodes = problem.read_from_outside(group) & problem.everything
    return {of[i] for i in bits(nodes) if i in of}


def group_by_node(groups: Sequence[int]) -> dict[int, int]:
    """Return a map from the index of each node to the index of its group.

    groups: node masks.
    """
    return {i: g for g, group in enumerate(groups) for i in bits(group)}
