"""The stage `assign`: selects the engine and the kernels of each node."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.offload import offload, require_no_cpu_fallback
from penstock.backends.portable import assign
from penstock.ir.graph import Graph
from penstock.passes.order import ACCUMULATION, QUEUES, run_passes
from penstock.passes.streamed_rows import streamed_rows
from penstock.pipeline.request import Request
from penstock.scheduling.model.parts import Parts


def assign_engines(graph: Graph, request: Request) -> Parts:
    """Return the parts of a graph, each with its engine and kernels.

    Accelerators claim sub-graphs; the processor runs all other nodes.  States that are shifted by
    rows become queues, and reductions on the processor are split into accumulations if the option
    `accumulate` is set.

    Raises BackendError if the description of an accelerator is invalid, and TargetError if the
    request is strict and a node falls back to the processor.
    """
    found = offload(graph, request.accelerators, request.target)
    if request.strict:
        require_no_cpu_fallback(found.cpu_fallbacks)
    passes = (*QUEUES, *(ACCUMULATION if request.options.accumulate else ()))
    if request.stream_input:
        passes = (*passes, streamed_rows)
    graph = run_passes(found.graph, passes)
    names = tuple(accelerator.name for accelerator in request.accelerators)
    return replace(
        assign_kernels(graph, request), accelerators=names, cpu_fallbacks=found.cpu_fallbacks
    )


def assign_kernels(graph: Graph, request: Request) -> Parts:
    """Return the parts of a graph whose composites are the sub-graphs claimed by accelerators."""
    return assign(graph, request.target, stream_input=request.stream_input)
