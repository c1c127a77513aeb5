"""OrderProblem: steps that read and write tensors, to be ordered such that peak memory is least.

Liveness, for every order:

    while a step runs, all tensors that it reads or writes and its scratch memory are live;
    a network input is live from the start to its last reader (to the end with `keep_inputs`);
    a network output is live from its writer to the end;
    any other tensor is live from its writer to its last reader;
    if a step may write tensor b over tensor a, and no later step reads a, the two tensors share
    memory while the step runs: together they count as the larger one.

So the bytes that are live while a step runs depend on the *set* of steps before it, not on their
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import rustworkx as rx

from penstock.errors import InternalError
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts


@dataclass(frozen=True, slots=True)
class OrderStep:
    """A step that reads and writes tensors, given by name.

    scratch_bytes: memory that is live only while the step runs.
    in_place: (read, written) pairs of tensors; `written` may overwrite `read`, so the two may share
        memory.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch_bytes: int = 0
    in_place: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class OrderProblem:
    """Steps that are to be ordered for least peak memory, with the sizes of their tensors.

    sizes: (tensor name, bytes) pairs.
    inputs, outputs: names of the network's input and output tensors.
    keep_inputs: whether the inputs must survive the run.

    Every tensor is an input or written by exactly one step.  Tensors that need no memory, such as
    constants, are left out.
    """

    steps: tuple[OrderStep, ...]
    sizes: tuple[tuple[str, int], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    keep_inputs: bool = False

    def __post_init__(self) -> None:
        written = Counter(name for step in self.steps for name in set(step.writes))
        written.update(self.inputs)
        sized = dict(self.sizes)
        named = {name for step in self.steps for name in (*step.reads, *step.writes)}
        named |= {*self.inputs, *self.outputs}
        if wrong := sorted(name for name in named if name not in sized or written[name] != 1):
            what = "every tensor needs a size, and exactly one writer unless it is an input"
            raise InternalError("order-001", what, where=", ".join(wrong))
        pairs = ((step, read, write) for step in self.steps for read, write in step.in_place)
        if any(r not in step.reads or w not in step.writes for step, r, w in pairs):
            raise InternalError(
                "order-002",
                "an in-place pair must join a tensor that is read and one that is written",
            )
        if not rx.is_directed_acyclic_graph(dependence_graph(self)):
            raise InternalError("order-003", "the steps depend on each other in a cycle")


def dependence_graph(problem: OrderProblem) -> rx.PyDiGraph[int, str]:
    """Return the dependence graph: one node per step, edges from each writer to its readers.

    The node with index i represents step i, and its data is i.  There is one edge for each pair of
    a writer and a reader; its data is the name of a tensor that the two share.
    """
    graph: rx.PyDiGraph[int, str] = rx.PyDiGraph(multigraph=False)
    graph.add_nodes_from(list(range(len(problem.steps))))
    writer = {name: i for i, step in enumerate(problem.steps) for name in step.writes}
    for i, step in enumerate(problem.steps):
        for name in step.reads:
            if name in writer:
                graph.add_edge(writer[name], i, name)
    return graph


def shared_bytes(pairs: tuple[tuple[str, str, int], ...]) -> int:
    """Return the maximum number of bytes that in-place pairs can save together.

    pairs: (tensor read, tensor written, bytes saved if the two share memory).
    Each tensor can share memory in at most one pair, so this is a maximum weight matching.
    """
    reads, writes = {r for r, _, _ in pairs}, {w for _, w, _ in pairs}
    if len(reads) == len(writes) == len(pairs):
        return sum(saved for _, _, saved in pairs)
    if len(reads) == 1 or len(writes) == 1:
        return max(saved for _, _, saved in pairs)
    graph: rx.PyGraph[str, int] = rx.PyGraph()
    nodes = {key: graph.add_node(key[1]) for r, w, _ in pairs for key in (("r", r), ("w", w))}
    for r, w, saved in pairs:
        graph.add_edge(nodes["r", r], nodes["w", w], saved)
    matching = rx.max_weight_matching(graph, weight_fn=int)
    return sum(graph.get_edge_data(a, b) for a, b in matching)


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
