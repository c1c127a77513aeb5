"""Compiler regions: adjacent composites (sub-graphs as single nodes) of one accelerator that share
a region number.

The number is stored in the attribute `region` of each composite.  Each region can run as one unit:
the graph in which a single node replaces each region has no cycles.
Source: TVM, MergeCompilerRegions (UMA's `merge_compiler_regions`).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.ir.composite import Composite
from penstock.ir.graph import Graph

REGION = "region"


def with_regions(graph: Graph, engine: str, *, merge: bool) -> Graph:
    """Return the graph with a region number on every composite of the accelerator `engine`.

    Regions are numbered from 0 in node order.

    merge: True to let adjacent composites share a region if no path leaves the region and returns
        to it; False to make each composite a region of its own.
    """
    groups = _Groups(graph)
    composites = (n for n in graph.nodes if isinstance(n.op, Composite) and n.op.engine == engine)
    ours = {node.name: node.op for node in composites}
    if merge:
        for name in ours:
            for before in groups.sources[name]:
                if before in ours:
                    groups.join(before, name)
    roots = dict.fromkeys(groups.group_of[name] for name in ours)
    numbers = {root: k for k, root in enumerate(roots)}
    nodes = tuple(
        replace(n, op=_numbered(n.op, numbers[groups.group_of[n.name]]))
        if isinstance(n.op, Composite) and n.op.engine == engine
        else n
        for n in graph.nodes
    )
    return graph.with_nodes(nodes)


def _numbered(composite: Composite, number: int) -> Composite:
    others = tuple(pair for pair in composite.attributes if pair[0] != REGION)
    return replace(composite, attributes=((REGION, number), *others))


class _Groups:
    """A partition of the nodes of a graph into groups, from which compiler regions are made.

    Initially, each node is a group of its own.  A group has the name of one of its nodes.  The
    graph that has one node for each group never contains a cycle.

    sources: for each node, by name, the names of the nodes whose outputs it reads.
    group_of: for each node, by name, the name of its group.
    members: for each group, by name, the names of its nodes.
    """

    def __init__(self, graph: Graph) -> None:
        made = {node.name for node in graph.nodes}
        self.sources = {
            node.name: tuple(dict.fromkeys(v.name for v in node.inputs if v.name in made))
            for node in graph.nodes
        }
        self.group_of = {node.name: node.name for node in graph.nodes}
        self.members = {node.name: [node.name] for node in graph.nodes}

    def join(self, first: str, second: str) -> None:
        """Merge the groups of two nodes, where `second` reads the output of `first`.

        Does nothing if a path between the two groups passes through a third group, because merging
        would then create a cycle.
        """
        upper, lower = self.group_of[first], self.group_of[second]
        if upper == lower or self._reaches(upper, lower):
            return
        for name in self.members.pop(lower):
            self.group_of[name] = upper
            self.members[upper].append(name)

    def _reaches(self, upper: str, lower: str) -> bool:
        """Return whether a path from group `upper` to `lower` passes through a third group."""
        seen = {lower}
        waiting = [g for g in self._predecessors(lower) if g != upper]
        while waiting:
            group = waiting.pop()
            if group == upper:
                return True
            if group not in seen:
                seen.add(group)
                waiting += self._predecessors(group)
        return False

    def _predecessors(self, group: str) -> list[str]:
        return [self.group_of[s] for name in self.members[group] for s in self.sources[name]]
