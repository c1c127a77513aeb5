"""Groups of parts that an accelerator runs as one part: their composites and kernels."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.accelerator import Accelerator
from penstock.backends.kernel_choice import with_accelerator_kernels
from penstock.backends.processor_parts import single_node_part
from penstock.hardware.target import Target
from penstock.ir.composite import FUSED, Composite
from penstock.ir.graph import Node
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts


def fused_part(
    parts: Parts, members: Sequence[int], target: Target, accelerators: Sequence[Accelerator]
) -> Part | None:
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
    op = Composite(FUSED, engine, nodes, tuple(value.name for value in inputs))
    node = Node(op, inputs, nodes[-1].output, nodes[-1].origin)
    found = with_accelerator_kernels(node, accelerators)
    return None if found is None else single_node_part(found, target.engines[0])
