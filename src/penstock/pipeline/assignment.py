"""The stage `assign`: selects the engine and the kernels of each node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from penstock.backends.offload import OffloadedGraph, offload, require_no_cpu_fallback
from penstock.backends.processor_parts import assign, portable_part, single_node_part
from penstock.hardware.target import Engine
from penstock.ir.graph import Graph, Node
from penstock.ir.op import Op
from penstock.optional import attempt, attempt_each
from penstock.passes.exchange_axes import exchange_axes
from penstock.passes.matrix_rows import matrix_rows
from penstock.passes.order import ACCUMULATION, STATES, run_passes
from penstock.passes.streamed_rows import streamed_rows
from penstock.pipeline.channel_alternatives import grouped_graphs
from penstock.pipeline.request import Request
from penstock.scheduling.model.part import Part
from penstock.scheduling.model.parts import Parts

MakePart = Callable[[Node, Engine], Part]
"""Function that returns a node as a part, given the engine of nodes that no accelerator runs."""


def assign_engines(graph: Graph, request: Request) -> Parts:
    """Return the parts of a graph, each with its engine and kernels.

    Accelerators claim sub-graphs; the processor runs all other nodes.  States that are shifted by
    rows become queues, and reductions on the processor are split into accumulations if the option
    `accumulate` is set.  The result contains the parts of alternative graphs, unless the option
    `alternatives` excludes them: without accelerators those of `_alternatives`, otherwise those of
    `_other_choices`.

    Raises BackendError if the description of an accelerator is invalid, and TargetError if the
    request is strict and a node falls back to the processor.
    """
    found = offload(graph, request.accelerators, request.target)
    if request.strict:
        require_no_cpu_fallback(found.cpu_fallbacks)
    parts = _offloaded_parts(found, request)
    if not request.options.alternatives:
        return parts
    made = _other_choices if request.accelerators else _alternatives
    others = enumerate(made(graph, parts, request), 1)
    found = tuple(replace(p, alternative=k, network=parts) for k, p in others)
    return replace(parts, alternatives=found)


def _other_choices(graph: Graph, parts: Parts, request: Request) -> Iterator[Parts]:
    """Yield the parts of the graph for other values of attributes of accelerators, where tensors
    then need less memory, or where a stated schedule may need them.

    parts: those for the values in the request."""
    for k, accelerator in enumerate(request.accelerators):
        for choice in accelerator.open_choices:
            if choice.is_searched:
                others = (*request.accelerators[:k], choice.make(), *request.accelerators[k + 1 :])
                found = _offloaded_parts(offload(graph, others, request.target), request)
                if request.schedule or _tensor_bytes(found) < _tensor_bytes(parts):
                    yield found


def _tensor_bytes(parts: Parts) -> int:
    return sum(storage.size_bytes for storage in parts.rows.storages)


def assigned_again(parts: Parts, request: Request) -> Parts:
    """Return the parts of the same graph for another request with the same accelerators.

    It calls no pass or strategy of a backend: they run once, on what is compiled.

    Raises no error that `assign_engines` has not raised for `parts`."""
    assert parts.offloaded is not None
    return _offloaded_parts(OffloadedGraph(parts.offloaded, parts.cpu_fallbacks), request)


def _offloaded_parts(found: OffloadedGraph, request: Request) -> Parts:
    return replace(
        _processor_parts(found.graph, request),
        accelerators=tuple(accelerator.name for accelerator in request.accelerators),
        cpu_fallbacks=found.cpu_fallbacks,
        offloaded=found.graph,
    )


def _processor_parts(graph: Graph, request: Request, make_part: MakePart | None = None) -> Parts:
    """Return the parts of a graph after the passes of this stage.

    make_part: returns a node as a part; None: with the best kernels.
    """
    passes = (*STATES, *(ACCUMULATION if request.options.accumulate else ()))
    if request.stream_input:
        passes = (*passes, streamed_rows)
    return assign_kernels(run_passes(graph, passes), request, make_part)


def _alternatives(graph: Graph, parts: Parts, request: Request) -> Iterator[Parts]:
    """Yield the parts of graphs that compute the same with less memory or fewer cycles.

    1. Reductions are not split into accumulations, which take fewer rows but more cycles.
    2. Rows and columns are exchanged, where images have more columns than rows.  An input that the
       caller supplies row by row cannot be exchanged.
    3. Products of matrices, such as those of attention, are computed row by row.
    4. Hidden channels are computed in groups (`channel_alternatives.py`).

    parts: those of the graph.
    """
    ways: tuple[tuple[str, Callable[[], Parts | None]], ...] = (
        ("whole reductions", lambda: _whole(graph, parts, request)),
        ("exchanged axes", lambda: _exchanged(graph, request)),
        ("rows of matrices", lambda: _matrix_rows(graph, request)),
    )
    for plan, make in ways:
        found = attempt(plan, make, lambda: None)
        if found is not None:
            yield found
    yield from attempt_each("channel groups", lambda: _grouped(graph, parts, request))


def _whole(graph: Graph, parts: Parts, request: Request) -> Parts | None:
    """Return the parts of a graph without accumulations; None if `parts` have none."""
    options = replace(request.options, accumulate=False)
    make_part = partial(_shared_parts(parts), single_node_part)
    whole = _processor_parts(graph, replace(request, options=options), make_part)
    same = _operators(whole) == _operators(parts)
    return None if same else replace(whole, is_for_speed=True)


def _operators(parts: Parts) -> tuple[Op, ...]:
    return tuple(node.op for node in parts.graph.nodes)


def _exchanged(graph: Graph, request: Request) -> Parts | None:
    """Return the parts of a graph with rows and columns exchanged; None if there is none."""
    if request.stream_input:
        return None
    exchanged = exchange_axes(graph, keep_inputs=request.options.keep_input)
    return None if exchanged is None else _processor_parts(exchanged, request)


def _matrix_rows(graph: Graph, request: Request) -> Parts | None:
    """Return the parts of a graph that computes products of matrices row by row; None if it has no
    such product."""
    by_rows = matrix_rows(graph)
    return None if by_rows is None else _processor_parts(by_rows, request)


def _grouped(graph: Graph, parts: Parts, request: Request) -> Iterator[Parts]:
    """Yield the parts of graphs whose hidden channels are computed in groups.

    parts: those of the graph.  Equal nodes have equal parts.
    """
    shared = _shared_parts(parts)

    def estimated(changed: Graph) -> Parts:
        return _processor_parts(changed, request, partial(shared, portable_part))

    for one in grouped_graphs(graph, parts, estimated, request.options):
        found = _processor_parts(one.graph, request, partial(shared, single_node_part))
        yield replace(found, least_row_bytes=one.least_row_bytes, floor_bytes=one.floor_bytes)


def _shared_parts(parts: Parts) -> Callable[[MakePart, Node, Engine], Part]:
    """Return a function that returns the part of a node if `parts` has it, else makes one."""
    known = {part.name: part for part in parts.parts if part.nodes}

    def shared_part(make: MakePart, node: Node, engine: Engine) -> Part:
        part = known.get(node.name)
        return part if part is not None and part.nodes[0] is node else make(node, engine)

    return shared_part


def assign_kernels(graph: Graph, request: Request, make_part: MakePart | None = None) -> Parts:
    """Return the parts of a graph whose composites are the sub-graphs claimed by accelerators.

    make_part: returns a node as a part; None: with the best kernels.
    """
    target, streamed = request.target, request.stream_input
    return assign(graph, target, stream_input=streamed, make_part=make_part)
