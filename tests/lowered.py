"""Compiles small graphs as far as a Program, the way the pipeline does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from found import elements
from penstock.backends.accelerator import Accelerator
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.ir.region import Region
from penstock.ir.tensor import Array
from penstock.pipeline import Compilation, Request, choose, lower_point, parts_of, place, schedule
from penstock.program.program import Program
from penstock.scheduling.schedule import Schedule
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine


@dataclass(frozen=True, slots=True)
class Lowered:
    """A graph, the schedule chosen for it, and its program."""

    graph: Graph
    schedule: Schedule
    program: Program

    @staticmethod
    def of(done: Compilation) -> Lowered:
        """What was compiled."""
        return Lowered(done.graph, done.schedule, done.program)


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


def assert_equal_to_graph(lowered: Lowered, seed: int) -> Machine:
    """Every computed region and every output of the program is the graph's; returns the machine."""
    inputs = inputs_of_graph(lowered.graph, seed)
    expected = run_graph(lowered.graph, inputs)

    def compare(tensor: str, region: Region, found: Array) -> None:
        np.testing.assert_array_equal(found, expected[tensor][region.slices], tensor)

    machine = Machine(lowered.program, compare)
    outputs = machine.run(inputs)
    assert set(outputs) == {value.name for value in lowered.graph.outputs}
    for name, output in outputs.items():
        np.testing.assert_array_equal(output, expected[name], name)
    return machine


def assert_counts_are_the_schedules(lowered: Lowered, machine: Machine) -> None:
    """The machine has counted what the schedule's cost says."""
    cost, counts = lowered.schedule.cost, machine.counts
    assert counts.macs == cost.macs == lowered.graph.macs()
    assert {m: n for m, n in counts.read_bytes.items() if n} == dict(cost.read_bytes)
    assert {m: n for m, n in counts.written_bytes.items() if n} == dict(cost.written_bytes)
