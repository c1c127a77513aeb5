"""Compiler regions: composites of one accelerator that stand beside each other, under one number.

The number is the attribute `region`.  A region can run as a whole: no path leads out of one and
back into it, through others or through another region.
Source: TVM, MergeCompilerRegions (UMA's `merge_compiler_regions`).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.ir.composite import Composite
from penstock.ir.graph import Graph

REGION = "region"


def with_regions(graph: Graph, engine: str, *, merge: bool) -> Graph:
    """The graph whose composites of that engine have numbers of regions, counted from 0 in order;
    without `merge`, each its own."""
    groups = _Groups(graph)
    composites = (n for n in graph.nodes if isinstance(n.op, Composite) and n.op.engine == engine)
    ours = {node.name: node.op for node in composites}
    if merge:
        for name in ours:
            for before in groups.sources[name]:
                if before in ours:
                    groups.join(before, name)
    roots = dict.fromkeys(groups.of[name] for name in ours)
    numbers = {root: k for k, root in enumerate(roots)}
    nodes = tuple(
        replace(n, op=_numbered(n.op, numbers[groups.of[n.name]]))
        if isinstance(n.op, Composite) and n.op.engine == engine
        else n
        for n in graph.nodes
    )
    return graph.with_nodes(nodes)


def _numbered(composite: Composite, number: int) -> Composite:
    others = tuple(pair for pair in composite.attributes if pair[0] != REGION)
    return replace(composite, attributes=((REGION, number), *others))


class _Groups:
    """Nodes in groups, at first each its own; what groups read is at any time without a cycle."""

    def __init__(self, graph: Graph) -> None:
        made = {node.name for node in graph.nodes}
        self.sources = {
            node.name: tuple(dict.fromkeys(v.name for v in node.inputs if v.name in made))
            for node in graph.nodes
        }
        self.of = {node.name: node.name for node in graph.nodes}
        self.members = {node.name: [node.name] for node in graph.nodes}

    def join(self, first: str, second: str) -> None:
        """Makes one group of those of two nodes, of which the second reads the first, unless a path
        leads from one to the other through a third."""
        upper, lower = self.of[first], self.of[second]
        if upper == lower or self._reaches(upper, lower):
            return
        for name in self.members.pop(lower):
            self.of[name] = upper
            self.members[upper].append(name)

    def _reaches(self, upper: str, lower: str) -> bool:
        """Whether a path leads from one group to the other through a third."""
        seen = {lower}
        waiting = [g for g in self._read_by(lower) if g != upper]
        while waiting:
            group = waiting.pop()
            if group == upper:
                return True
            if group not in seen:
                seen.add(group)
                waiting += self._read_by(group)
        return False

    def _read_by(self, group: str) -> list[str]:
        return [self.of[s] for name in self.members[group] for s in self.sources[name]]
