"""Groups of parts that an accelerator runs as one part: their composites and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from penstock.backends.accelerator import Accelerator
from penstock.backends.kernel_choice import with_accelerator_kernels
from penstock.backends.portable import single_node_part
from penstock.hardware.target import Target
from penstock.ir.columns import COLUMNS, RANK
from penstock.ir.composite import FUSED, Composite
from penstock.ir.graph import Node, Value, free_name
from penstock.ir.tensor import TensorType
from penstock.ops.concatenation import Concatenation
from penstock.ops.slice import Slice
from penstock.scheduling.model.fused_parts import FusedPart, SectionNode
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts


def fused_part(
    parts: Parts, members: Sequence[int], target: Target, accelerators: Sequence[Accelerator]
) -> FusedPart | None:
    """Return the part that runs some parts tile by tile; None if their accelerator cannot.

    members: indices of the parts, in execution order.
    accelerators: those that run composites of the network.
    """
    every = [parts.parts[k] for k in members]
    engine = every[0].engine
    able = (one for one in accelerators if one.name == engine)
    if not any(strategy.op == FUSED for one in able for strategy in one.strategies):
        return None
    if any(part.engine != engine or not part.kernel.by_rows for part in every):
        return None
    nodes = tuple(node for part in every for node in part.nodes)
    made = {node.name for node in nodes}
    read = (v for node in nodes for v in node.inputs if v.name not in made)
    inputs = tuple({value.name: value for value in read}.values())
    outputs = _outputs(parts, nodes)
    if len(outputs) > 1:
        if not _may_be_sections(parts, made, outputs):
            return None
        nodes = (*nodes, _side_by_side(outputs, nodes[-1], parts))
    op = Composite(FUSED, engine, nodes, tuple(value.name for value in inputs))
    node = Node(op, inputs, nodes[-1].output, nodes[-1].origin)
    found = with_accelerator_kernels(node, accelerators)
    if found is None:
        return None
    part = single_node_part(found, target.engines[0])
    return FusedPart(part, _section_nodes(outputs, part) if len(outputs) > 1 else ())


def _outputs(parts: Parts, nodes: Sequence[Node]) -> tuple[Value, ...]:
    """Return the values that some nodes compute and that are used outside of these nodes."""
    made = {node.name for node in nodes}
    used = {value.name for value in parts.graph.results}
    for node in parts.graph.nodes:
        if node.name not in made:
            used |= {value.name for value in node.inputs}
    return tuple(node.output for node in nodes if node.name in used)


def _may_be_sections(parts: Parts, made: set[str], outputs: Sequence[Value]) -> bool:
    """Return whether the outputs of a group can be columns of one tensor that the group writes.

    made: names of the values that the group computes.

    The outputs must be images that differ only in their columns.  Their rows are not adjacent in
    memory, so all other readers must read row by row.
    """
    names, types = {value.name for value in outputs}, [value.type for value in outputs]
    alike = {(t.shape[:COLUMNS], t.shape[COLUMNS + 1 :], t.dtype) for t in types}
    if types[0].rank != RANK or len(alike) > 1:
        return False
    if any(value.name in names for value in parts.graph.results):
        return False
    able = {part.name for part in parts.parts if part.kernel.by_rows}
    return all(
        node.name in able
        for node in parts.graph.nodes
        if node.name not in made and any(value.name in names for value in node.inputs)
    )


def _side_by_side(outputs: Sequence[Value], last: Node, parts: Parts) -> Node:
    """Return the node that places the outputs of a group side by side.

    last: the last node of the group.
    """
    op = Concatenation(COLUMNS)
    type = op.result_type(tuple(value.type for value in outputs))
    name = free_name(f"{last.name}/outputs", parts.names)
    return Node(op, tuple(outputs), Value(name, type), last.origin)


def _section_nodes(outputs: Sequence[Value], part: Part) -> tuple[SectionNode, ...]:
    """Return the nodes that take the outputs of a group from the tensor that its part writes."""
    columns = [value.type.shape[COLUMNS] for value in outputs]
    firsts = accumulate(columns, initial=0)
    return tuple(
        SectionNode(_section_node(value, first, part), first * _column_bytes(value.type))
        for value, first in zip(outputs, firsts, strict=False)
    )


def _section_node(value: Value, first_column: int, part: Part) -> Node:
    shape = value.type.shape
    start = tuple(first_column if axis == COLUMNS else 0 for axis in range(RANK))
    return Node(Slice(start, shape, (1,) * RANK), (part.output,), value, part.nodes[-1].origin)


def _column_bytes(type: TensorType) -> int:
    return type.shape[COLUMNS + 1] * type.dtype.size_bytes
