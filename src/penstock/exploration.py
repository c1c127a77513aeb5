"""exploration: the whole frontier of a network: every schedule that a budget could pick."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from penstock.brief import Brief, shortened
from penstock.codegen.bundle import Bundle, write_bundle
from penstock.ir.graph import Graph
from penstock.pipeline import (
    Point,
    Request,
    chosen_index,
    parts_of,
    place,
    prefix_of,
    read,
    schedule,
    simplify_for,
)
from penstock.reports.formats import number
from penstock.reports.frontier import Choice, Choices, choice
from penstock.reports.frontier_html import render_frontier
from penstock.reports.html import framed
from penstock.scheduling.schedule import Frontier
from penstock.workers import mapped


class OnProgress(Protocol):
    """Told the name of each stage as it begins, and how many of its things are done, if it has
    many."""

    def __call__(self, stage: str, done: int = 0, of: int = 1, /) -> None: ...


@dataclass(frozen=True, slots=True, repr=False)
class Explored(Brief):
    """The frontier of a network, as files."""

    choices: Choices

    def __repr__(self) -> str:
        found = self.choices
        least, most = found.choices[0].ram_bytes, found.choices[-1].ram_bytes
        words = f"{found.model} for {found.target}: {len(found.choices)} points"
        return shortened(f"Explored({words}, RAM {number(least)} to {number(most)} bytes)")

    def _repr_html_(self) -> str:
        return framed(render_frontier(self.choices))

    def bundle(self) -> Bundle:
        """frontier.csv, frontier.json and frontier.html: the same bytes for the same network."""
        text = json.dumps(self.choices.as_json(), indent=2) + "\n"
        return Bundle(
            (
                ("frontier.csv", self.choices.as_csv().encode()),
                ("frontier.json", text.encode()),
                ("frontier.html", render_frontier(self.choices)),
            )
        )

    def write(self, folder: str | Path) -> None:
        """Writes the files into a new folder, all or none.  Raises OutputError."""
        write_bundle(self.bundle(), Path(folder))

    @property
    def folder(self) -> str:
        """Where the files go unless it is said."""
        return f"{prefix_of(self.choices.model)}_frontier"


def explore_request(
    request: Request, on_progress: OnProgress, executor: Executor | None = None
) -> Explored:
    """The frontier; and where the input is an array, that with a streamed input, planned anew.

    A budget chooses but leaves nothing out: where nothing fits, nothing is chosen."""
    on_progress("read")
    model = read(request.model, request.reading)
    on_progress("simplify")
    graph = simplify_for(model, request)
    requests = [request]
    if not request.stream_input:
        requests.append(replace(request, stream_input=True))
    frontiers = mapped(partial(_frontier, graph), requests, executor)
    points = _points(frontiers, request, on_progress, executor)
    streamed = None
    if not request.stream_input:
        other = _points(frontiers, request, on_progress, executor, " streamed")
        streamed = _choices(other, request)
    return Explored(
        Choices(
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
        )
    )


def _frontier(graph: Graph, request: Request) -> Frontier:
    return schedule(parts_of(graph, request), request.target, request.options)


def _points(
    frontiers: Iterator[Frontier],
    request: Request,
    on_progress: OnProgress,
    executor: Executor | None,
    note: str = "",
) -> tuple[Point, ...]:
    """The points of the next frontier."""
    on_progress(f"schedule{note}")
    frontier = next(frontiers)
    count = len(frontier.schedules)
    return place(
        frontier,
        request.target,
        request.options,
        executor,
        lambda done: on_progress(f"place{note}", done, count),
    )


def _choices(points: tuple[Point, ...], request: Request) -> tuple[Choice, ...]:
    memories = [memory.name for memory in request.target.memories]
    return tuple(
        choice(point.schedule, point.heights, request.stack_bytes, memories) for point in points
    )
