"""Compiles small graphs up to a Program, like the pipeline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from found import elements
from penstock.backends.accelerator import Accelerator
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array, Region
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.choosing import choose
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.program.program import Program
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine


@dataclass(frozen=True, slots=True)
class Lowered:
    """A graph, its schedule and its program."""

    graph: Graph
    schedule: Schedule
    program: Program

    @staticmethod
    def of(done: Compilation) -> Lowered:
        """What was compiled."""
        return Lowered(done.graph, done.schedule, done.program)


def lower(
    graph: Graph,
    target_name: str = "host",
    accelerators: tuple[Accelerator, ...] = (),
    *,
    accumulate: bool = False,
) -> Lowered:
    """The program of a graph for a target whose memory is practically unlimited.

    `accumulate` splits reductions, which adds tensors to the graph.
    """
    target = load_target(target_name)
    options = Options(accumulate=accumulate, alternatives=False)
    request = Request(graph.name, target, accelerators=accelerators, options=options)
    frontier = schedule(assign_engines(graph, request), target, request.options)
    chosen = choose(place(frontier, target, request.options), request)
    return Lowered(graph, chosen.schedule, lower_point(chosen, accelerators))


def inputs_of_graph(graph: Graph, seed: int) -> dict[str, Array]:
    """Random elements of every input of the graph, by name."""
    return {v.name: elements(v.type, seed + k) for k, v in enumerate(graph.inputs)}


def assert_equal_to_graph(lowered: Lowered, seed: int) -> Machine:
    """Asserts that computed regions and outputs equal those of the graph; returns the machine."""
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


def assert_outputs_equal(lowered: Lowered, seed: int) -> Machine:
    """As `assert_equal_to_graph`, but for outputs alone: an accelerator may write anything to the
    unused channels of packs."""
    inputs = inputs_of_graph(lowered.graph, seed)
    machine = Machine(lowered.program)
    expected = run_graph(lowered.graph, inputs)
    for name, output in machine.run(inputs).items():
        np.testing.assert_array_equal(output, expected[name], name)
    return machine


def assert_counts_are_the_schedules(lowered: Lowered, machine: Machine) -> None:
    """Asserts that the machine's counts equal the schedule's cost."""
    cost, counts = lowered.schedule.cost, machine.counts
    assert counts.macs == cost.macs == lowered.graph.macs()
    assert {m: n for m, n in counts.read_bytes.items() if n} == dict(cost.read_bytes)
    assert {m: n for m, n in counts.written_bytes.items() if n} == dict(cost.written_bytes)
