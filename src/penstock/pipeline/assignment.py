"""The stage `assign`: selects the engine and the kernels of each node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.backends.offload import offload, require_no_cpu_fallback
from penstock.backends.portable import assign
from penstock.ir.graph import Graph
from penstock.passes.channel_groups import HiddenChain, group_channels, hidden_chains
from penstock.passes.exchange_axes import exchange_axes
from penstock.passes.order import ACCUMULATION, QUEUES, run_passes
from penstock.passes.streamed_rows import streamed_rows
from penstock.pipeline.request import Request
from penstock.scheduling.model.parts import Parts

CHANNEL_GROUPS = (8, 32)
"""Numbers of groups of hidden channels to try."""


def assign_engines(graph: Graph, request: Request) -> Parts:
    """Return the parts of a graph, each with its engine and kernels.

    Accelerators claim sub-graphs; the processor runs all other nodes.  States that are shifted by
    rows become queues, and reductions on the processor are split into accumulations if the option
    `accumulate` is set.  Without accelerators, the result contains the parts of alternative graphs
    (see `_alternatives`), unless the option `alternatives` excludes them.

    Raises BackendError if the description of an accelerator is invalid, and TargetError if the
    request is strict and a node falls back to the processor.
    """
    found = offload(graph, request.accelerators, request.target)
    if request.strict:
        require_no_cpu_fallback(found.cpu_fallbacks)
    parts = _processor_parts(found.graph, request)
    names = tuple(accelerator.name for accelerator in request.accelerators)
    parts = replace(parts, accelerators=names, cpu_fallbacks=found.cpu_fallbacks)
    if request.accelerators or not request.options.alternatives:
        return parts
    assigned = (_processor_parts(g, request) for g in _alternatives(graph, parts, request))
    found = tuple(replace(p, alternative=k, similar=parts) for k, p in enumerate(assigned, 1))
    return replace(parts, alternatives=found, similar=parts)


def _processor_parts(graph: Graph, request: Request) -> Parts:
    """Return the parts of a graph after the passes of this stage."""
    passes = (*QUEUES, *(ACCUMULATION if request.options.accumulate else ()))
    if request.stream_input:
        passes = (*passes, streamed_rows)
    return assign_kernels(run_passes(graph, passes), request)


def _alternatives(graph: Graph, parts: Parts, request: Request) -> Iterator[Graph]:
    """Yield graphs that compute the same in another way, and may need less memory.

    1. Rows and columns are exchanged, where images have more columns than rows.  An input that the
       caller supplies row by row cannot be exchanged.
    2. Hidden channels are computed in groups, where they are more than half of the memory that any
       schedule of whole channels needs.
    """
    if not request.stream_input:
        exchanged = exchange_axes(graph, keep_inputs=request.options.keep_input)
        if exchanged is not None:
            yield exchanged
    bound = parts.rows.least_bytes
    chains = [chain for chain in hidden_chains(graph) if 2 * chain.row_bytes > bound]
    chosen = {chain.name: chain for chain in _disjoint(chains)}
    for count in CHANNEL_GROUPS if chosen else ():
        groups = {name: min(count, chain.channels) for name, chain in chosen.items()}
        yield group_channels(graph, groups)


def _disjoint(chains: Sequence[HiddenChain]) -> Iterator[HiddenChain]:
    """Yield chains without common nodes, those with the largest rows first."""
    taken: set[str] = set()
    for chain in sorted(chains, key=lambda chain: -chain.row_bytes):
        names = {node.name for node in chain.nodes} | {chain.name}
        if taken.isdisjoint(names):
            taken |= names
            yield chain


def assign_kernels(graph: Graph, request: Request) -> Parts:
    """Return the parts of a graph whose composites are the sub-graphs claimed by accelerators."""
    return assign(graph, request.target, stream_input=request.stream_input)
