"""Law: the machine that runs a program computes what the graph means, bit for bit, and moves and
multiplies what the schedule says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from benchmarks.small_tensors import Sample
from cascades import EVERY_PROGRAM
from found import every_computing_sample, few, inputs_of
from lowered import (
    assert_counts_are_the_schedules,
    assert_equal_to_graph,
    inputs_of_graph,
    lower,
)
from penstock.hardware.load import generic_target_names
from penstock.ir.graph import Graph, Node, Value
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from programs import Example
from strategies import graphs, seeds


def graph_of(sample: Sample) -> Graph:
    """The sample as a graph of one node."""
    triples = zip(sample.site.inputs, sample.site.constants, strict=True)
    values = tuple(Value(f"x{k}", type, data) for k, (type, data) in enumerate(triples))
    node = Node(sample.op, values, Value("y", sample.site.output))
    return Graph("sample", node.variable_inputs, (node.output,), (node,))


@given(graph=graphs(), seed=seeds)
def test_the_machine_computes_the_graph(graph: Graph, seed: int) -> None:
    lowered = lower(graph)
    machine = assert_equal_to_graph(lowered, seed)
    assert_counts_are_the_schedules(lowered, machine)


@given(graph=graphs(), seed=seeds)
def test_a_second_inference_does_not_depend_on_the_first(graph: Graph, seed: int) -> None:
    machine = Machine(lower(graph).program)
    first, second = (inputs_of_graph(graph, seed + k) for k in (0, 9))
    machine.run(first)
    again = Machine(lower(graph).program).run(second)
    for name, elements in machine.run(second).items():
        np.testing.assert_array_equal(elements, again[name])


@every_computing_sample
def test_the_machine_computes_every_operator(sample: Sample) -> None:
    lowered = lower(graph_of(sample))
    assert lowered.graph.nodes[0].site == sample.site
    assert len(inputs_of(sample.site, 1)) == len(sample.site.inputs)
    machine = assert_equal_to_graph(lowered, seed=1)
    assert_counts_are_the_schedules(lowered, machine)


@pytest.mark.parametrize("target", generic_target_names())
@few
@given(graph=graphs(most_nodes=3), seed=seeds)
def test_the_machine_computes_the_graph_for_every_target(
    target: str, graph: Graph, seed: int
) -> None:
    assert_equal_to_graph(lower(graph, target), seed)


@pytest.mark.parametrize("example", EVERY_PROGRAM, ids=lambda example: example.name)
@given(seed=seeds)
def test_a_program_written_by_hand_computes_its_graph(example: Example, seed: int) -> None:
    inputs = inputs_of_graph(example.graph, seed)
    machine = Machine(example.program)
    outputs, expected = machine.run(inputs), run_graph(example.graph, inputs)
    for value in example.graph.outputs:
        np.testing.assert_array_equal(outputs[value.name], expected[value.name])


@pytest.mark.parametrize("example", EVERY_PROGRAM, ids=lambda example: example.name)
def test_a_cascade_computes_no_row_twice(example: Example) -> None:
    machine = Machine(example.program)
    machine.run(inputs_of_graph(example.graph, 1))
    if "large stride" in example.name:  # there, some rows are never needed
        assert machine.counts.macs < example.graph.macs()
    else:
        assert machine.counts.macs == example.graph.macs()
