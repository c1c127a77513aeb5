"""Competition of accelerators for nodes: which one runs the nodes that several can run.

The accelerator with the highest strategy level wins; of equal levels, the one with which the nodes
take the fewest cycles; of equal cycles, the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.backends.accelerator import Accelerator
from penstock.backends.author import cost_of
from penstock.backends.kernel_choice import strategies_for, with_chosen_kernels
from penstock.backends.partition import partition
from penstock.errors import BackendError
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node
from penstock.ir.tensor import row_count

# By accelerator, the reasons why it may not claim nodes, by node name.
Reservations = Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class _Bid:
    """The composites of an accelerator among nodes for which it competes.

    level: the highest level of the strategies of these composites.
    cycles: those of the composites, and of the processor for the nodes that they leave to it."""

    nodes: dict[str, Node] = field(default_factory=dict)
    level: int = 0
    cycles: float = 0.0


def reservations(
    graph: Graph, accelerators: Sequence[Accelerator], processor_cycles: Callable[[Node], int]
) -> Reservations:
    """Return the nodes that accelerators must leave to others, which win the competition for them.

    The strategies of an accelerator are asked for composites that compete, before its graph passes
    of later phases run.  If one fails there, its cycles count as infinite.

    Raises BackendError if a function of a backend fails."""
    lost: dict[str, dict[str, str]] = {accelerator.name: {} for accelerator in accelerators}
    claims = {
        accelerator.name: [
            node
            for node in partition(
                graph, accelerator.patterns, accelerator.constraints, accelerator.name
            )[0].nodes
            if isinstance(node.op, Composite) and node.op.engine == accelerator.name
        ]
        for accelerator in accelerators
    }
    nodes = {node.name: node for node in graph.nodes}
    for group in _groups(claims):
        own = {
            one.name: (one, found)
            for one in accelerators
            if (found := [node for node in claims[one.name] if node.name in group])
        }
        if len(own) < 2:
            continue
        bids = {one.name: bid for one, found in own.values() if (bid := _bid(one, found))}
        every = {name for bid in bids.values() for name in bid.nodes}
        for bid in bids.values():
            left = (nodes[name] for name in every - bid.nodes.keys())
            bid.cycles += sum(processor_cycles(node) for node in left if not node.op.ALIAS)
        if len(bids) < 2:
            continue
        winner = min(bids, key=lambda name: (-bids[name].level, bids[name].cycles))
        for name in lost.keys() - {winner}:
            reason = _reason(winner, bids[winner], bids.get(name))
            lost[name] |= dict.fromkeys(bids[winner].nodes, reason)
    return lost


def _reason(winner: str, won: _Bid, own: _Bid | None) -> str:
    if own is None:
        return f"{winner} runs the node"
    if own.level < won.level:
        return f"{winner} has a strategy of level {won.level}, not {own.level}"
    return f"{winner} takes {won.cycles:,.0f} cycles instead of {own.cycles:,.0f}"


def _bid(accelerator: Accelerator, claims: Sequence[Node]) -> _Bid | None:
    """The bid of an accelerator; None if it can run none of the composites."""
    found = _Bid()
    for node in claims:
        assert isinstance(node.op, Composite)
        try:
            chosen = with_chosen_kernels(node, accelerator)
            if isinstance(chosen, str):
                continue
            found.cycles += _cycles(chosen)
        except BackendError:
            found.cycles = float("inf")
        levels = [strategy.level for strategy in strategies_for(node.op, accelerator)]
        found.level = max(found.level, *levels, 0)
        found.nodes |= {inner.name: inner for inner in node.op.nodes}
    return found if found.nodes else None


def _cycles(node: Node) -> float:
    assert isinstance(node.op, Composite)
    assert node.op.chosen is not None
    cost = node.op.chosen.cycles
    if cost is None:
        return float("inf")
    return cost_of(cost, row_count(node.output.shape), (), node.name)


def _groups(claims: Mapping[str, Sequence[Node]]) -> tuple[set[str], ...]:
    """Return sets of names of nodes; composites that share nodes are in the same set."""
    owner: dict[str, set[str]] = {}
    for composite in (node for found in claims.values() for node in found):
        assert isinstance(composite.op, Composite)
        names = {inner.name for inner in composite.op.nodes}
        merged = names.union(*(owner[name] for name in names if name in owner))
        owner |= dict.fromkeys(merged, merged)
    return tuple({id(group): group for group in owner.values()}.values())
