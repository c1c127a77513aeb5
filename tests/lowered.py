"""Compiles small graphs as far as a Program, the way the pipeline does."""

from __future__ import annotations

from dataclasses import dataclass

from found import elements
from penstock.backends.accelerator import Accelerator
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.pipeline import Request, choose, lower_point, parts_of, place, schedule
from penstock.program.program import Program
from penstock.scheduling.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Lowered:
    """A graph, the schedule chosen for it, and its program."""

    graph: Graph
    schedule: Schedule
    program: Program


def lower(
    graph: Graph, target_name: str = "host", accelerators: tuple[Accelerator, ...] = ()
) -> Lowered:
    """The graph's program for a target that is large enough for anything."""
    target = load_target(target_name)
    request = Request(graph.name, target, accelerators=accelerators)
    frontier = schedule(parts_of(graph, request), target, request.options)
    chosen = choose(place(frontier, target, request.options), request)
    return Lowered(graph, chosen.schedule, lower_point(chosen, accelerators))


def inputs_of_graph(graph: Graph, seed: int) -> dict[str, Array]:
    """Random elements of every input of the graph, by name."""
    return {v.name: elements(v.type, seed + k) for k, v in enumerate(graph.inputs)}
