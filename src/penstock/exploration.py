"""Exploration: the whole frontier of a network, with and without a streamed input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Protocol

from penstock.brief import Brief, shortened
from penstock.codegen.bundle import Bundle, Bundled
from penstock.frozen import frozen
from penstock.ir.graph import Graph
from penstock.optional import Failed, attempt, outcome, succeeded
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.choosing import chosen_index
from penstock.pipeline.emission import command_line
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.request import Request
from penstock.pipeline.stages import PLACE, READ, SCHEDULE, SIMPLIFY, frontier
from penstock.reports.formats import number
from penstock.reports.frontier import FrontierPoint, FrontierReport, choice
from penstock.reports.html import framed, render_frontier
from penstock.revision import commit
from penstock.scheduling.model.schedule import Frontier
from penstock.workers import mapped


class OnProgress(Protocol):
    """A progress callback: the name of a stage, and how many of its items are done."""

    def __call__(self, stage: str, done: int = 0, of: int = 1, /) -> None: ...


@frozen(repr=False)
class Explored(Brief, Bundled):
    """The frontier of a network and its files.

    choices: the points, with and without a streamed input."""

    choices: FrontierReport

    def __repr__(self) -> str:
        found = self.choices
        least, most = found.choices[0].ram_bytes, found.choices[-1].ram_bytes
        words = f"{found.model} for {found.target}: {len(found.choices)} points"
        return shortened(f"Explored({words}, RAM {number(least)} to {number(most)} bytes)")

    def _repr_html_(self) -> str:
        return framed(render_frontier(self.choices))

    def bundle(self) -> Bundle:
        """frontier.csv, frontier.json and frontier.html."""
        text = json.dumps(self.choices.as_json(), indent=2) + "\n"
        return Bundle(
            (
                ("frontier.csv", self.choices.as_csv().encode()),
                ("frontier.json", text.encode()),
                ("frontier.html", render_frontier(self.choices)),
            )
        )


def explore_request(
    request: Request, on_progress: OnProgress, executor: Executor | None = None
) -> Explored:
    """The frontier of a request and, unless it streams the input, the frontier with streaming.

    Budgets do not exclude points; if none is feasible, none is marked as chosen."""
    on_progress(READ.name)
    model = read_request(request)
    on_progress(SIMPLIFY.name)
    graph = simplify(model, request.rounding, request.io)
    requests = [request]
    with_streaming = not request.stream_input and request.schedule is None
    if with_streaming:
        requests.append(replace(request, stream_input=True))
    frontiers = mapped(partial(outcome, partial(_frontier, graph)), requests, executor)
    points = _points(frontiers, request, on_progress, executor)
    streamed = None
    if with_streaming:
        place_other = partial(_points, frontiers, request, on_progress, executor, " streamed")
        other = attempt("a streamed input", place_other, lambda: None)
        streamed = None if other is None else _choices(other, request)
    return Explored(
        FrontierReport(
            model.name,
            request.target.name,
            model.macs(),
            request.stack_bytes,
            request.ram_limit_bytes,
            request.stream_input,
            _choices(points, request),
            request.goal,
            chosen_index(points, request),
            streamed,
            version("penstock"),
            command_line(request),
            request.target.clock_hz,
            commit(),
        )
    )


def _frontier(graph: Graph, request: Request) -> Frontier:
    return frontier(assign_engines(graph, request), request)


def _points(
    frontiers: Iterator[Frontier | Failed],
    request: Request,
    on_progress: OnProgress,
    executor: Executor | None,
    note: str = "",
) -> tuple[PlacedPoint, ...]:
    """Place the next frontier; `note` distinguishes its stages in the progress."""
    on_progress(f"{SCHEDULE.name}{note}")
    found = succeeded(next(frontiers))
    count = len(found.schedules)
    return place(
        found,
        request.target,
        request.options,
        executor,
        lambda done: on_progress(f"{PLACE.name}{note}", done, count),
    )


def _choices(points: tuple[PlacedPoint, ...], request: Request) -> tuple[FrontierPoint, ...]:
    memories = [memory.name for memory in request.target.memories]
    return tuple(
        choice(point.schedule, point.heights, request.stack_bytes, memories) for point in points
    )
