"""The order problem of a graph: its parts as steps that read and write storages.

A part is one or more nodes that run as a unit; a storage is the memory of a tensor and its aliases.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.order.steps import OrderProblem, OrderStep


def order_problem(parts: Parts, *, keep_inputs: bool) -> OrderProblem:
    """Return the problem of ordering parts (nodes that run as a unit) for least peak memory.

    Each part is a step.  The tensors of the problem are the storages: a storage is the memory of a
    tensor and its aliases.  Each step writes one storage.
    keep_inputs: whether the network's inputs must survive the run.
    """
    storages = parts.owners
    graph = parts.graph
    sizes = ((storage.name, storage.size_bytes) for storage in parts.rows.storages)
    outputs = (storages[v.name] for v in graph.results if v.data is None)
    in_rings = frozenset(name for queue in parts.queues for name in queue.inside)
    counters = tuple(queue.counter for queue in parts.queues)
    return OrderProblem(
        tuple(_step(part, storages, in_rings) for part in parts.parts),
        tuple(sizes),
        (*(v.name for v in parts.sources), *counters),
        tuple(dict.fromkeys((*outputs, *counters))),
        keep_inputs,
    )


def _step(part: Part, storages: Mapping[str, str], in_rings: frozenset[str]) -> OrderStep:
    """Return the step of a part.

    storages: name of the storage of each value, by value name.
    in_rings: names of the storages that hold the new rows of queues.  These storages are part of
        ring buffers, so they are in no in-place pair.
    """
    reads = tuple(dict.fromkeys(storages[v.name] for v in part.variable_inputs))
    written = storages[part.output.name]
    overwritten = (read for read in reads if _may_overwrite(part, read, storages))
    pairs = tuple((read, written) for read in overwritten if not {read, written} & in_rings)
    return OrderStep(part.name, reads, (written,), part.least_scratch_bytes, pairs)


def _may_overwrite(part: Part, storage: str, storages: Mapping[str, str]) -> bool:
    """Return whether a part may write its output over `storage`, the memory of an input tensor.

    This requires, for each input of the part in this memory, that output element i depends only on
    element i of the input.
    storages: name of the storage of each value, by value name.
    """
    allowed = part.in_place()
    return all(
        k in allowed
        for k, value in enumerate(part.inputs)
        if value.data is None and storages[value.name] == storage
    )
