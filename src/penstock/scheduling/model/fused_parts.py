"""Fused parts: parts that an accelerator runs as a single part, tile by tile.

A tile is a rectangle of rows and columns of the output of the last part.  Of the tensors between
the parts, the on-chip memory holds only what one tile needs.  The *original* parts are those from
the stage `assign`.

A group is the set of parts that a single part replaces.  A part writes one tensor.  If the group
has several outputs, the single part therefore writes a tensor that contains all of them side by
side.  Each output is stored as some columns of this tensor (`ColumnSection`).

Cascades and chains in bands of columns (`bands/variant.py`) are replaced in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.ir.composite import FUSED, Composite
from penstock.ir.graph import Graph, Node
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import ColumnSection, Parts


@dataclass(frozen=True, slots=True)
class SectionNode:
    """A node that takes one of several outputs of a group from the tensor that the group writes.

    first_byte: offset, in bytes, at which a row of the output begins in a row of this tensor.
    """

    node: Node
    first_byte: int


@dataclass(frozen=True, slots=True)
class FusedPart:
    """A part that runs a group of other parts tile by tile, or in bands of columns.

    outputs: if the group has several outputs, the nodes that take each of them from the tensor that
        the part writes; empty if this tensor is the only output.
    """

    part: Part
    outputs: tuple[SectionNode, ...] = ()


class FusionSource(Protocol):
    """Creates parts that run other parts tile by tile, for the accelerators of a target."""

    def fused(self, parts: Parts, members: Sequence[int]) -> FusedPart | None:
        """Return the part that runs some parts tile by tile; None if no accelerator can.

        members: indices of the parts, in execution order.
        """
        ...


def fused_members(part: Part) -> tuple[str, ...]:
    """Return the names of the original parts that `part` runs tile by tile.

    The result is empty if `part` runs no other parts tile by tile.
    """
    op = part.nodes[-1].op if part.nodes else None
    if not isinstance(op, Composite) or op.name != FUSED:
        return ()
    # A node that is no composite places several outputs side by side; it is no original part.
    return tuple(node.name for node in op.nodes if isinstance(node.op, Composite))


@dataclass(frozen=True, slots=True)
class Replacement:
    """Parts in which single parts stand for groups of the original parts.

    index: for each original part, the index of the part that runs it.
    """

    parts: Parts
    index: Sequence[int]


def with_fused(parts: Parts, groups: Sequence[tuple[Sequence[int], FusedPart]]) -> Replacement:
    """Replace each group of parts by a single part.

    groups: for each group, the indices of its parts in execution order, and the part that replaces
        them.

    Returns the parts after the replacement, and the index in them of each original part.
    """
    if not groups:
        return Replacement(parts, range(len(parts.parts)))
    single = {members[-1]: fused for members, fused in groups}
    last = {k: members[-1] for members, _ in groups for k in members}
    nodes: dict[str, tuple[Node, ...]] = {parts.parts[k].name: () for k in last}
    for k, fused in single.items():
        nodes[parts.parts[k].name] = (fused.part.nodes[-1], *(one.node for one in fused.outputs))
    graph = parts.graph
    every = [new for node in graph.nodes for new in nodes.get(node.name, (node,))]
    graph = graph.with_nodes(tuple(_in_order(graph, every)))
    remaining = {k: part for k, part in enumerate(parts.parts) if k not in last}
    remaining |= {k: fused.part for k, fused in single.items()}
    position = {node.name: p for p, node in enumerate(graph.nodes)}
    order = sorted(remaining, key=lambda k: (position.get(remaining[k].name, -1), k))
    number = {k: p for p, k in enumerate(order)}
    sections = (
        ColumnSection(one.node.name, fused.part.name, one.first_byte)
        for fused in single.values()
        for one in fused.outputs
    )
    changed = replace(
        parts,
        graph=graph,
        parts=tuple(remaining[k] for k in order),
        sections=(*parts.sections, *sections),
        alternatives=(),
    )
    return Replacement(changed, tuple(number[last.get(k, k)] for k in range(len(parts.parts))))


def _in_order(graph: Graph, nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes in a topological order: always the first one whose inputs are available."""
    known = {value.name for value in graph.sources}
    waiting = list(nodes)
    while waiting:
        ready = next(n for n in waiting if all(v.name in known for v in n.variable_inputs))
        waiting.remove(ready)
        known.add(ready.name)
        yield ready
