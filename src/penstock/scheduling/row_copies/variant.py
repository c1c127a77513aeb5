"""Schedules in which cascades read copies of rows: their parts, plans and memory assignment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.ir.copy_rows import CopyRows
from penstock.ir.graph import Node, Value, free_name
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.row_copy import CopiedRows, RowCopy
from penstock.scheduling.row_copies.conditions import readers


@dataclass(frozen=True, slots=True)
class RowCopyVariant:
    """Parts and plans with copies of rows.

    regions: memory region of each copy, as pairs (name of the copy, name of the region).
    """

    parts: Parts
    plans: tuple[Plan, ...]
    regions: tuple[tuple[str, str], ...]


def with_row_copies(parts: Parts, plans: Sequence[Plan], copier: str) -> RowCopyVariant:
    """Add a part for each row copy in `Plan.row_copies` to the parts and plans of a schedule.

    parts: the parts without row copies, from the stage `assign`.
    plans: the plans, whose `parts` do not include row copies yet.  Each tensor to be copied must be
        `conditions.copyable` in its cascade.
    copier: name of the copy engine.

    In each plan of the result, the parts that perform its row copies come first.
    """
    names = set(parts.names)
    every = list(parts.parts)
    copied: list[CopiedRows] = []
    found: list[Plan] = []
    for plan in plans:
        first = len(every)
        for copy in plan.row_copies:
            users = readers(parts, plan.parts, copy.tensor)
            node = _copy_node(parts.parts[users[0]], copy, names)
            ahead = plan.stripe if copy.overlapped and plan.stripe is not None else 0
            copied.append(CopiedRows(node.name, parts.owners[copy.tensor], users, ahead))
            for k in users:
                every[k] = _reading(every[k], node)
            every.append(Part((node,), copier, node.op.kernel(node.site), row_copy=copy))
        copies = range(first, len(every))
        found.append(replace(plan, parts=(*copies, *plan.parts)) if copies else plan)
    if not copied:
        return RowCopyVariant(parts, tuple(found), ())
    graph = parts.graph.with_nodes(tuple(_nodes(parts, every)))
    copied_parts = replace(
        parts, graph=graph, parts=tuple(every), row_copies=tuple(copied), uncopied=parts
    )
    pairs = zip(copied, every[len(parts.parts) :], strict=True)
    regions = ((c.ring, part.row_copy.region) for c, part in pairs if part.row_copy is not None)
    return RowCopyVariant(copied_parts, tuple(found), tuple(regions))


def without_row_copies(plan: Plan) -> Plan:
    """Return the plan without the parts that perform row copies, at the beginning of `Plan.parts`.

    Only parts of the stage `assign` remain.  The other fields are not changed: `row_copies` still
    lists the copies, and `costs` their costs.
    """
    return replace(plan, parts=plan.parts[len(plan.row_copies) :])


def _copy_node(reader: Part, copy: RowCopy, names: set[str]) -> Node:
    """Return a new node that performs a row copy, and add its name to `names`.

    The name is "tensor/region", after the copied tensor and the region of the ring.  A number is
    appended if `names` already contains this name.
    reader: a part that reads the tensor; provides the tensor's type.
    """
    tensor = next(value for value in reader.variable_inputs if value.name == copy.tensor)
    name = free_name(f"{copy.tensor}/{copy.region}", names)
    names.add(name)
    return Node(CopyRows(), (tensor,), Value(name, tensor.type))


def _reading(part: Part, copy: Node) -> Part:
    """Return the part with one input replaced: it reads a row copy instead of the copied tensor."""
    (tensor,) = copy.inputs
    (node,) = part.nodes
    inputs = tuple(copy.output if value.name == tensor.name else value for value in node.inputs)
    return replace(part, nodes=(replace(node, inputs=inputs),))


def _nodes(parts: Parts, every: Sequence[Part]) -> Iterator[Node]:
    """Yield the nodes of a graph with row copies, each copy before the first node that reads it.

    parts: the parts of the schedule without row copies.
    every: the same parts in the same order, some of which now read copies; after them, the parts
        that perform the copies.
    """
    now: Mapping[str, Node] = {part.name: part.nodes[-1] for part in every if part.nodes}
    copies = {part.name: part.nodes[-1] for part in every[len(parts.parts) :]}
    for node in parts.graph.nodes:
        node = now.get(node.name, node)
        for value in node.inputs:
            if value.name in copies:
                yield copies.pop(value.name)
        yield node
