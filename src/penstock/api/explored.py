"""`explore`, the whole frontier of a model; `show`, the result of a stage; `nodes`, its nodes."""

from __future__ import annotations

from typing import Unpack

from penstock.api.arguments import check_flags, ignore_progress
from penstock.api.requested import Model, request, with_settings
from penstock.api.settings import Settings
from penstock.backends.offload import offload
from penstock.backends.pattern_mismatch import explain
from penstock.choices import one_of
from penstock.exploration import Explored, OnProgress, explore_request
from penstock.hardware.default_target import DEFAULT_TARGET
from penstock.ir.composite import Composite
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.request import Request
from penstock.pipeline.stages import STAGE_NAMES, run_through
from penstock.pipeline.texts import print_stage
from penstock.reports.layer import NodeLine
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


@with_settings
def show(
    model: Model | Request,
    target: str = DEFAULT_TARGET,
    *,
    stop_after: str = "simplify",
    with_data: bool = False,
    workers: Workers = 1,
    **settings: Unpack[Settings],
) -> str:
    """Run the stages up to one and return its result as text.

    stop_after: the stage, one of "read", "simplify", "assign", "schedule", "place", "lower",
        "write".
    with_data: include constants, so that the text of a graph can be parsed back.
    workers: number of processes, or an executor; the result does not depend on it.

    Raises as `compile`; UsageError also if there is no such stage."""
    wanted = model if isinstance(model, Request) else request(model, target, **settings)
    check_flags("show", with_data=with_data)
    one_of(stop_after, STAGE_NAMES, "--stop-after")
    with executor_of(workers) as executor:
        outcomes = run_through(wanted, stop_after, executor)
    return print_stage(outcomes, with_data=with_data)


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
