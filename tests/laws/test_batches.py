"""Every operator on several images computes rows of one of them at a time, on the machine."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.small_tensors import Sample
from found import SAMPLES
from lowered import inputs_of_graph
from penstock import cascader
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import image_rows, row_count
from penstock.scheduling.model.access import works_by_rows
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine

BATCHES = [
    pytest.param(sample, id=name)
    for name, sample in SAMPLES
    if row_count(sample.site.output.shape) > image_rows(sample.site.output.shape)
]


def of_one_node(sample: Sample) -> Graph:
    site = sample.site
    operands = enumerate(zip(site.inputs, site.constants, strict=True))
    inputs = tuple(Value(f"input {k}", type, data) for k, (type, data) in operands)
    y = Value("y", site.output)
    variable = tuple(value for value in inputs if value.data is None)
    return Graph("one node", variable, (y,), (Node(sample.op, inputs, y),))


@pytest.mark.parametrize("sample", BATCHES)
def test_rows_of_images_are_computed_apart(sample: Sample) -> None:
    graph, shape = of_one_node(sample), sample.site.output.shape
    parts = cascader.parts(graph)
    if not works_by_rows(parts.parts[0]):
        pytest.skip("the kernel computes all images at once")
    inputs = inputs_of_graph(graph, 0)
    expected = run_graph(graph, inputs)
    for rows in {1, image_rows(shape)}:
        schedule = cascader.make_schedule(parts, cascader.Cascade(("y",), rows=rows))
        machine = Machine(cascader.program(schedule))
        for name, elements in machine.run(inputs).items():
            np.testing.assert_array_equal(elements, expected[name])
        read = {memory: count for memory, count in machine.counts.read_bytes.items() if count}
        assert (machine.counts.macs, read) == (schedule.cost.macs, dict(schedule.cost.read_bytes))
        (config,) = cascader.tensor_configs(schedule)
        images = row_count(shape) // image_rows(shape)
        assert config.count == images * -(-image_rows(shape) // rows)
        assert sum(region.elements for region in config.regions()) == sample.site.output.elements
