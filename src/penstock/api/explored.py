"""`explore`, the whole frontier of a model; `nodes`, its nodes and the engines that run them."""

from __future__ import annotations

from typing import Unpack

from penstock.api.progress import ignore_progress
from penstock.api.settings import Model, Settings, request
from penstock.api.signatures import with_settings
from penstock.backends.offload import offload
from penstock.backends.pattern_explanation import explain
from penstock.exploration import Explored, OnProgress, explore_request
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.ir.composite import Composite
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.request import Request
from penstock.reports.engine_work import NodeLine
from penstock.workers import Workers, executor_of


@with_settings
def explore(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    workers: Workers = 1,
    on_progress: OnProgress = ignore_progress,
    **settings: Unpack[Settings],
) -> Explored:
    """The frontier of a model: every schedule that some request can select.

    workers: number of processes, or an executor; the result does not depend on it.
    on_progress: called with the name of each stage, and how many of its items are done.

    Raises as `compile`, but no CapacityError: without a feasible point, none is marked as
    chosen."""
    wanted = model if isinstance(model, Request) else request(model, target, **settings)
    with executor_of(workers) as executor:
        return explore_request(wanted, on_progress, executor)


def explain_pattern(wanted: Request, node: str) -> tuple[str, ...]:
    """Why each pattern of the accelerators matches or does not match at a node, as lines.

    Raises ModelError, UnsupportedError, BackendError; UsageError if there is no such node."""
    graph = simplify(read_request(wanted), wanted.rounding, wanted.io)
    return explain(graph, wanted.accelerators, wanted.target, node)


def nodes(wanted: Request) -> tuple[NodeLine, ...]:
    """The nodes of a simplified network after offload, each with the engine that runs it.

    Raises ModelError, UnsupportedError, BackendError."""
    processor = wanted.target.engines[0].name
    graph = simplify(read_request(wanted), wanted.rounding, wanted.io)
    if wanted.accelerators:
        graph = offload(graph, wanted.accelerators, wanted.target).graph
    return tuple(
        NodeLine(
            node.kind,
            node.output.type.shape,
            node.op.engine if isinstance(node.op, Composite) else processor,
            node.name,
        )
        for node in graph.nodes
    )
