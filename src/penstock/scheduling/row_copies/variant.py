"""Schedules with row copies: each copy becomes a part, which the copy engine runs.

The parts that read or write a copied tensor access the copy, a ring in faster memory, instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.ir.copy_rows import CopyRows
from penstock.ir.graph import Node, Value, free_name
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.plan import Plan
from penstock.scheduling.model.row_copy import CopiedRows, RowCopy, RowsCopiedOut
from penstock.scheduling.row_copies.conditions import readers, writer


@dataclass(frozen=True, slots=True)
class RowCopyVariant:
    """The parts and plans of a schedule to which row copies have been added.

    Each copy is a further part; the parts that it serves read or write a ring instead of the tensor
    in slow memory.
    regions: memory region of each ring, as pairs (name of the ring, name of the region).
    """

    parts: Parts
    plans: tuple[Plan, ...]
    regions: tuple[tuple[str, str], ...]


def with_row_copies(parts: Parts, plans: Sequence[Plan], copier: str) -> RowCopyVariant:
    """Add a part for each row copy in `Plan.row_copies` to the parts and plans of a schedule.

    parts: the parts without row copies, from the stage `assign`.
    plans: the plans, whose `parts` do not include row copies yet.  Each copy must be
        `conditions.copyable` in its cascade.  In `row_copies`, copies in precede copies out.
    copier: name of the copy engine.

    In each plan of the result, the parts that copy in come first, and those that copy out last.
    """
    names = set(parts.names)
    every = list(parts.parts)
    copied: list[CopiedRows | RowsCopiedOut] = []
    found: list[Plan] = []
    for plan in plans:
        first = len(every)
        for copy in plan.row_copies:
            ring = free_name(f"{copy.tensor}/{copy.region}", names)
            names.add(ring)
            rows = plan.stripe if copy.overlapped and plan.stripe is not None else 0
            source = writer(parts, plan.parts, copy.tensor)
            if source is not None:
                node = _copy_out(every[source].output, ring)
                copied.append(RowsCopiedOut(ring, copy.tensor, source, rows))
                every[source] = _writing(every[source], node.inputs[0])
            else:
                users = readers(parts, plan.parts, copy.tensor)
                node = _copy_in(parts.parts[users[0]], copy, ring)
                copied.append(CopiedRows(ring, parts.owners[copy.tensor], users, rows))
                for k in users:
                    every[k] = _reading(every[k], node)
            every.append(Part((node,), copier, node.op.kernel(node.site), row_copy=copy))
        out = len(every) - sum(copy.out for copy in plan.row_copies)
        inside = (*range(first, out), *plan.parts, *range(out, len(every)))
        found.append(replace(plan, parts=inside))
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
    """Return the plan without the parts that perform row copies in `Plan.parts`.

    `Plan.parts` then refers only to parts of the graph before row copies were added.  The other
    fields are unchanged: `row_copies` and `costs` still have entries for the copies.
    """
    copies = set(plan.row_copy_places)
    return replace(plan, parts=tuple(k for i, k in enumerate(plan.parts) if i not in copies))


def _copy_in(reader: Part, copy: RowCopy, ring: str) -> Node:
    """Return a new node that copies a tensor into a ring.

    reader: a part that reads the tensor; provides the tensor's type.
    ring: name of the ring.
    """
    tensor = next(value for value in reader.variable_inputs if value.name == copy.tensor)
    return Node(CopyRows(), (tensor,), Value(ring, tensor.type))


def _copy_out(tensor: Value, ring: str) -> Node:
    """Return a new node that copies a ring, given by its name, to a tensor."""
    return Node(CopyRows(), (Value(ring, tensor.type),), tensor)


def _reading(part: Part, copy: Node) -> Part:
    """Return the part with one input replaced: it reads a row copy instead of the copied tensor."""
    (tensor,) = copy.inputs
    (node,) = part.nodes
    inputs = tuple(copy.output if value.name == tensor.name else value for value in node.inputs)
    return replace(part, nodes=(replace(node, inputs=inputs),))


def _writing(part: Part, ring: Value) -> Part:
    """Return the part with its output replaced by a ring, whose rows a row copy copies out."""
    (node,) = part.nodes
    return replace(part, nodes=(replace(node, output=ring),), copied_out_to=part.name)


def _nodes(parts: Parts, with_copies: Sequence[Part]) -> Iterator[Node]:
    """Yield the nodes of the graph with row copies, in topological order.

    The node of a copy in precedes the first node that reads its ring.  The node of a copy out
    follows the node that writes its ring.
    parts: the parts of the schedule without row copies.
    with_copies: first the same parts in the same order, some of them changed to read or write
        rings; then the parts that perform the copies.
    """
    pairs = zip(parts.parts, with_copies, strict=False)
    now: Mapping[str, Node] = {old.name: new.nodes[-1] for old, new in pairs if new.nodes}
    before: dict[str, Node] = {}
    after: dict[str, Node] = {}
    for part in with_copies[len(parts.parts) :]:
        (node,) = part.nodes
        if part.row_copy is not None and part.row_copy.out:
            after[node.inputs[0].name] = node
        else:
            before[node.name] = node
    for node in parts.graph.nodes:
        node = now.get(node.name, node)
        for value in node.inputs:
            if value.name in before:
                yield before.pop(value.name)
        yield node
        if node.name in after:
            yield after[node.name]
