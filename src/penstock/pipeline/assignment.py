"""The stage `assign`: the engine and the kernel that run each node."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.offload import offload, require_nothing_left
from penstock.backends.portable import assign
from penstock.ir.graph import Graph
from penstock.passes.order import PASSES_AFTER_OFFLOAD, run_passes
from penstock.pipeline.request import Request
from penstock.scheduling.model.parts import Parts


def assign_engines(graph: Graph, request: Request) -> Parts:
    """Offload what accelerators claim, split reductions, assign the rest to the processor.

    Raises BackendError if the description of an accelerator is wrong, and TargetError if a strict
    request leaves a node to the processor."""
    found = offload(graph, request.accelerators, request.target)
    if request.strict:
        require_nothing_left(found.left)
    graph = found.graph
    if request.options.accumulate:
        graph = run_passes(graph, PASSES_AFTER_OFFLOAD)
    names = tuple(accelerator.name for accelerator in request.accelerators)
    return replace(assign_kernels(graph, request), accelerators=names, left=found.left)


def assign_kernels(graph: Graph, request: Request) -> Parts:
    """The parts of a graph that accelerators have already claimed their nodes of."""
    return assign(graph, request.target, stream_input=request.stream_input)
