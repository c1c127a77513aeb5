"""Fused parts: parts that an accelerator runs as a single part, tile by tile.

A tile is a rectangle of rows and columns of the output of the last part.  The tensors between the
parts are on chip one tile at a time.  The *original* parts are those from the stage `assign`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from penstock.ir.composite import FUSED, Composite
from penstock.ir.graph import Graph, Node
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts


class FusionSource(Protocol):
    """Creates parts that run other parts tile by tile, which depends on the accelerators."""

    def fused(self, parts: Parts, members: Sequence[int]) -> Part | None:
        """Return the part that runs some parts tile by tile; None if no accelerator can.

        members: indices of the parts, in execution order.  Only the output of the last one is used
            by other parts.
        """
        ...


def fused_members(part: Part) -> tuple[str, ...]:
    """Return the names of the original parts that a part runs tile by tile; empty if it is one."""
    op = part.nodes[-1].op if part.nodes else None
    if not isinstance(op, Composite) or op.name != FUSED:
        return ()
    return tuple(node.name for node in op.nodes)


def with_fused(
    parts: Parts, groups: Sequence[tuple[Sequence[int], Part]]
) -> tuple[Parts, Mapping[int, int]]:
    """Return the parts in which a single part stands for each group, and the new indices.

    groups: the indices of the parts of each group, in execution order, and the single part.

    All parts of a group have the index of the single part.
    """
    single = {members[-1]: part for members, part in groups}
    last = {k: members[-1] for members, _ in groups for k in members}
    found: list[Part] = []
    index: dict[int, int] = {}
    for k, part in enumerate(parts.parts):
        if k in last and k not in single:
            continue
        index |= dict.fromkeys((i for i, end in last.items() if end == k), len(found))
        index[k] = len(found)
        found.append(single.get(k, part))
    new = {part.name: part.nodes[-1] for part in single.values()}
    gone = {parts.parts[k].name for k in last} - new.keys()
    graph = parts.graph
    nodes = [new.get(node.name, node) for node in graph.nodes if node.name not in gone]
    graph = graph.with_nodes(tuple(_in_order(graph, nodes)))
    return replace(parts, graph=graph, parts=tuple(found), alternatives=()), index


def _in_order(graph: Graph, nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes in a topological order: always the first one whose inputs are available."""
    known = {value.name for value in graph.sources}
    waiting = list(nodes)
    while waiting:
        ready = next(n for n in waiting if all(v.name in known for v in n.variable_inputs))
        waiting.remove(ready)
        known.add(ready.name)
        yield ready
