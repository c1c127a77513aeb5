"""The public cascader: the example of RFC 0037, by affine transforms and on executed programs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from penstock import cascader
from penstock.cascader import BufferMode, StripeConfig
from penstock.errors import UnsupportedError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.tensor import Region
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Counts, Machine

SIZES = [(rows, columns) for rows in (1, 2, 3, 5, None) for columns in (1, 2, 3, 4, 5, None)]


def two_convolutions() -> Graph:
    """Two convolutions of 3 x 3 without padding: 8 channels to 8, then to 4."""
    net = GraphBuilder("two")
    x = net.conv2d(net.input((1, 13, 13, 8)), 8, 3, padding="valid", name="first")
    return net.build(net.conv2d(x, 4, 3, padding="valid", name="second"))


def residual() -> Graph:
    """Convolutions with padding, a stride, and a residual addition."""
    net = GraphBuilder("residual")
    x = net.conv2d(net.input((1, 11, 10, 2)), 3, 3, 2, name="stem")
    return net.build(net.max_pool2d(net.add(x, net.conv2d(x, 3, 3)), 2, 2, padding="same"))


def counted(graph: Graph, schedule: cascader.Schedule) -> Counts:
    """What the machine counts; the outputs are those of the operators."""
    machine = Machine(cascader.program(schedule))
    random = np.random.default_rng(0)
    inputs = {v.name: random.integers(-128, 128, v.type.shape, np.int8) for v in graph.inputs}
    expected = run_graph(graph, inputs)
    for name, elements in machine.run(inputs).items():
        np.testing.assert_array_equal(elements, expected[name])
    return machine.counts


def test_the_example_of_the_rfc_by_affine_transforms() -> None:
    parts = cascader.parts(two_convolutions())
    whole = (1, 9, 9, 4)
    output = StripeConfig((1, 3, 3, 4), whole, (1, 3, 3, 4), (0, 1, 2, 0), (1, 3, 3, 1), (0,) * 4)
    needed = cascader.needed_stripes(parts, output)
    assert {name: config.shape for name, config in needed.items()} == {
        "second": (1, 3, 3, 4),
        "first": (1, 5, 5, 8),
        "input": (1, 7, 7, 8),
    }
    assert needed["first"].extent == (1, 11, 11, 8)
    assert needed["first"].stripes == (1, 3, 3, 1)


def test_the_example_of_the_rfc_on_an_executed_program() -> None:
    graph = two_convolutions()
    schedule = cascader.single_cascade(cascader.parts(graph), rows=3, columns=3)
    counts = counted(graph, schedule)
    windows = {
        Region((0, 3 * i, 3 * j, 0), (1, 3 * i + 5, 3 * j + 5, 8))
        for i in range(3)
        for j in range(3)
    }
    assert counts.windows["first"] == Counter(windows)
    modes = {config.tensor: config.mode for config in cascader.tensor_configs(schedule)}
    assert modes == {"first": BufferMode.RECOMPUTE, "second": BufferMode.FULL}


@pytest.mark.parametrize("graph", [two_convolutions(), residual()], ids=["two", "residual"])
def test_stripes_are_those_that_the_machine_counts(graph: Graph) -> None:
    parts = cascader.parts(graph)
    for rows, columns in SIZES:
        if columns is not None and columns > graph.outputs[0].type.shape[2]:
            continue
        schedule = cascader.single_cascade(parts, rows, columns)
        counts = counted(graph, schedule)
        configs = cascader.tensor_configs(schedule)
        assert {c.tensor: Counter(c.regions()) for c in configs} == counts.stripes
        assert sum(config.count for config in configs) == schedule.cost.calls
        assert (counts.macs, counts.constant_macs) == (
            schedule.cost.macs,
            schedule.cost.constant_macs,
        )


def test_rolling_tensors_are_computed_once_and_recomputed_ones_are_not() -> None:
    parts = cascader.parts(two_convolutions())
    whole = parts.graph.macs()
    rolling, banded = (cascader.single_cascade(parts, 1, columns) for columns in (None, 3))
    assert rolling.cost.macs == whole < banded.cost.macs
    modes = [cascader.tensor_configs(schedule)[0].mode for schedule in (rolling, banded)]
    assert modes == [BufferMode.ROLLING, BufferMode.RECOMPUTE]


def test_a_part_without_columns_cannot_run_in_bands() -> None:
    net = GraphBuilder("dense")
    x = net.conv2d(net.input((1, 6, 6, 2)), 2, 3)
    parts = cascader.parts(net.build(net.fully_connected(x, 4)))
    with pytest.raises(UnsupportedError) as caught:
        cascader.single_cascade(parts, 1, 2)
    assert caught.value.code == "cascader-001"


def test_the_search_returns_schedules_with_their_stripes() -> None:
    parts = cascader.parts(residual())
    schedules = cascader.frontier(parts).schedules
    assert len(schedules) > 1
    for schedule in schedules:
        found = {
            config.tensor: Counter(config.regions()) for config in cascader.tensor_configs(schedule)
        }
        assert found == counted(parts.graph, schedule).stripes


def test_a_target_that_is_not_named_is_that_of_the_parts() -> None:
    parts = cascader.parts(residual(), "cortex-m7")
    rows = cascader.single_cascade(parts, rows=2)
    assert rows.cost == cascader.single_cascade(parts, rows=2, target="cortex-m7").cost
    assert rows.cost != cascader.single_cascade(parts, rows=2, target="host").cost
    fastest = cascader.frontier(parts).schedules[-1].cost
    assert fastest == cascader.frontier(parts, "cortex-m7").schedules[-1].cost
    assert cascader.proposals(parts) == cascader.proposals(parts, "cortex-m7")
    assert cascader.plans(parts).keys() == cascader.plans(parts, "cortex-m7").keys()
