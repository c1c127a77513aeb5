"""Offloading: assigns nodes to accelerators, and runs the accelerators' graph passes and those of
their program passes that run before stripes are chosen (`PassPhase.PROGRAM_PHASE_0`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.backends.accelerator import Accelerator, CpuFallback, PassPhase
from penstock.backends.competition import Reservations, reservations
from penstock.backends.partition import Refusals, check_engines, choose, is_partitioned, partition
from penstock.backends.processor_parts import processor_cycles
from penstock.backends.program_passes import after_passes, before_stripes
from penstock.errors import TargetError
from penstock.frozen import frozen
from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node


@frozen
class OffloadedGraph:
    """A graph in which each sub-graph that an accelerator runs is a single node, a composite.

    cpu_fallbacks: the nodes that the CPU runs, each with its cycles and the reason why no
        accelerator claims it."""

    graph: Graph
    cpu_fallbacks: tuple[CpuFallback, ...]


def offload(graph: Graph, accelerators: Sequence[Accelerator], target: Target) -> OffloadedGraph:
    """Return the graph in which the sub-graphs that accelerators run are composites, with kernels.

    accelerators: if several can run a node, the highest level of a strategy decides, then the
        cycles, then the order (`competition.py`).
    target: the chip; its first engine is the CPU, which runs all other nodes.

    Raises BackendError if the description of an accelerator is invalid, or if the graph is
    partitioned for another accelerator."""
    check_engines(graph, [accelerator.name for accelerator in accelerators])
    cycles = partial(processor_cycles, target=target)
    fallbacks: tuple[CpuFallback, ...] = ()
    graph, lost = contested(graph, accelerators, cycles)
    for accelerator in accelerators:
        graph, refusals = claimed(graph, accelerator, lost[accelerator.name])
        before = {item.node.name: item.reason for item in fallbacks}
        graph, fallbacks = choose(graph, accelerator, cycles, refusals)
        fallbacks = tuple(replace(item, reason=_all_reasons(before, item)) for item in fallbacks)
    return OffloadedGraph(before_stripes(graph, accelerators), fallbacks)


def contested(
    graph: Graph, accelerators: Sequence[Accelerator], cycles: Callable[[Node], int]
) -> tuple[Graph, Reservations]:
    """Return the graph after the passes of PRE_PARTITIONING of all accelerators, and the nodes that
    each must leave to others.

    cycles: those of a node on the processor."""
    rivals = [one for one in accelerators if not is_partitioned(graph, one)]
    for accelerator in rivals:
        graph = prepared(graph, accelerator)
    lost = reservations(graph, rivals, cycles) if len(rivals) > 1 else {}
    return graph, {one.name: lost.get(one.name, {}) for one in accelerators}


def claimed(
    graph: Graph, accelerator: Accelerator, reserved: Refusals | None = None
) -> tuple[Graph, Refusals]:
    """Run the accelerator's graph passes, and make composites of the sub-graphs that it claims.

    reserved: the nodes that it must leave to others, each with the reason, if the passes of
        PRE_PARTITIONING have run (`contested`); None otherwise.

    Returns the new graph, and the reason for each node that is not claimed, by node name.
    The composites have no kernels yet.  If the graph already contains composites of the
    accelerator (from `UMABackend.partition`), it is returned unchanged."""
    if is_partitioned(graph, accelerator):
        reason = f"{accelerator.name} did not claim this node when the graph was partitioned"
        return graph, {n.name: reason for n in graph.nodes if not isinstance(n.op, Composite)}
    graph = prepared(graph, accelerator) if reserved is None else graph
    graph, refusals = partition(
        graph,
        accelerator.patterns,
        accelerator.constraints,
        accelerator.name,
        merge=accelerator.merge_compiler_regions,
        reserved=reserved,
    )
    # A pass may rewrite nodes that are not claimed to read and write other tensors.
    by_op = {id(node.op): refusals.get(node.name) for node in graph.nodes}
    graph = after_passes(graph, accelerator, PassPhase.POST_PARTITIONING_0)
    graph = after_passes(graph, accelerator, PassPhase.POST_PARTITIONING_1)
    moved = {node.name: why for node in graph.nodes if (why := by_op.get(id(node.op)))}
    return graph, {**moved, **refusals}


def prepared(graph: Graph, accelerator: Accelerator) -> Graph:
    """Return the graph after the accelerator's passes of the phase PRE_PARTITIONING."""
    return after_passes(graph, accelerator, PassPhase.PRE_PARTITIONING)


def _all_reasons(before: Mapping[str, str], fallback: CpuFallback) -> str:
    """All reasons why a node runs on the CPU, in the order of the accelerators, as one text."""
    earlier = before.get(fallback.node.name)
    return f"{earlier}; {fallback.reason}" if earlier else fallback.reason


def require_no_cpu_fallback(fallbacks: Sequence[CpuFallback]) -> None:
    """Raise TargetError if there is a CPU fallback, which is a node that no accelerator runs."""
    if fallbacks:
        first = fallbacks[0]
        others = f" and {len(fallbacks) - 1} more fall" if len(fallbacks) > 1 else " falls"
        raise TargetError(
            "accelerator-001",
            f'node "{first.node.name}"{others} back to the CPU',
            where=first.node.origin or first.node.name,
            why=first.reason,
            help="without --strict, the summary lists each CPU fallback with its reason and cycles",
        )
