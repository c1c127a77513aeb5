"""Groups in tiles with several outputs, which are columns of one tensor; single layers in tiles."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks.compiled_partition import disagreements, engine_cycles, main_bytes
from benchmarks.tiled_groups import tiled_groups
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.pipeline.request import Request
from penstock.pipeline.search import band_source
from penstock.scheduling.grouping import strategies
from penstock.scheduling.grouping.cycles import GroupCycles
from penstock.scheduling.grouping.problem import Grouping, OrderCost, ordered_grouping
from penstock.scheduling.options import BYTES, CYCLES, Options
from penstock.scheduling.text.printer import print_frontier
from penstock_nvdla.fused import LayerGroup
from texts.schedule_reader import read_frontier

GROUPS = (("a", "b", "c", "d"), ("e", "f"))
"""The first group writes b, c and d: a convolution of the group and the second group read b, the
second group reads c, and the processor reads d."""


def branches() -> Graph:
    net = GraphBuilder("branches")
    x = net.input((1, 13, 11, 3))
    a = net.conv2d(x, 48, 3, name="a")
    b = net.conv2d(a, 40, 3, activation="relu", name="b")
    c = net.add(net.conv2d(b, 48, 3, name="c"), a, name="c/sum")
    d = net.max_pool2d(a, 3, 1, padding="same", name="d")
    e = net.conv2d(c, 8, 3, name="e")
    f = net.add(net.conv2d(e, 40, 1, name="f"), b, name="f/sum")
    return net.build(f, d)


def chosen_groups(cost: OrderCost, options: object) -> Grouping:
    """The groups `GROUPS`; every other node is a group of its own."""
    names = [node.name.split("/")[0] for node in cost.problem.nodes]
    engine = [node.name.endswith("packed") for node in cost.problem.nodes]
    masks = [
        sum(1 << k for k, name in enumerate(names) if name in group and engine[k])
        for group in GROUPS
    ]
    single = (1 << k for k in range(len(names)) if not sum(masks) >> k & 1)
    return ordered_grouping((*masks, *single), cost)


def request(objective: str = CYCLES) -> Request:
    nvdla = "nvdla:config=large,cvsram=14k"
    options = Options(partition="greedy", objective=objective)
    return api.request(branches(), "host", accelerators=(nvdla,), options=options, optimize="speed")


@cache
def compiled() -> Compilation:
    with patch.dict(strategies.STRATEGIES, greedy=chosen_groups):
        return compile_request(request())


def test_the_outputs_are_exact_and_cost_what_is_stated() -> None:
    done = compiled()
    groups = [group for group, _ in tiled_groups(done)]
    assert [(len(group.layers), len(group.outputs)) for group in groups] == [(5, 3), (3, 1)]
    assert not list(disagreements(done, engine_cycles(done.schedule), main_bytes(done.schedule)))


def test_the_generated_c_agrees() -> None:
    with patch.dict(strategies.STRATEGIES, greedy=chosen_groups):
        found = api.verify(request())
    assert [rung.step for rung in found.rungs] == ["machine", "host"]
    assert not any(rung.comparison.mismatches for rung in found.rungs if rung.comparison)


@pytest.mark.parametrize("objective", [CYCLES, BYTES])
def test_no_group_costs_less_than_its_lower_bound(objective: str) -> None:
    tiled: list[int] = []

    def checked(cost: GroupCycles, options: strategies.GroupingOptions) -> Grouping:
        found = strategies.best(cost, options)
        every = {group: spent for group, spent in cost.known.items() if spent is not None}
        least = cost.least(cost.problem.everything)
        assert all(spent >= least(group) for group, spent in every.items())
        assert least(cost.problem.everything) > 0
        tiled.extend(group for group in every if group in cost.in_tiles)
        return found

    with patch.dict(strategies.STRATEGIES, greedy=checked):
        compile_request(request(objective))
    assert any(group.bit_count() > 1 for group in tiled)


def test_schedules_with_several_outputs_are_read_back_from_text() -> None:
    done = compiled()
    text = print_frontier(done.frontier)
    source = band_source(done.request.target, done.request.accelerators)
    assert print_frontier(read_frontier(text, done.parts, source)) == text


def test_only_outputs_that_the_group_reads_are_written_twice() -> None:
    ((group, size), _) = tiled_groups(compiled())
    assert len(group.rows(size)) * len(group.columns(size)) > 1
    for output in group.outputs:
        written = np.zeros(group.size, np.int64)
        for rows in group.rows(size):
            for columns in group.columns(size):
                written[slice(*rows[output]), slice(*columns[output])] += 1
        is_read = any(output in names for layer in group.layers for _, names in layer.tasks)
        assert written.min() == 1
        assert (written.max() > 1) == is_read


def test_the_outputs_share_no_byte_of_a_row() -> None:
    parts = compiled().schedule.parts
    types = {value.name: value.type for value in parts.graph.variables()}
    (tensor,) = Counter(section.tensor for section in parts.sections)
    ends = sorted(
        (one.first_byte, one.first_byte + types[one.value].size_bytes // types[one.value].shape[1])
        for one in parts.sections
    )
    assert len(ends) == 3
    assert all(end == first for (_, end), (first, _) in pairwise(ends))
    assert ends[-1][1] == types[tensor].size_bytes // types[tensor].shape[1]


def test_a_wrong_output_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(group: LayerGroup, output: str) -> int:
        return 0

    monkeypatch.setattr(LayerGroup, "packs_before", first)
    with patch.dict(strategies.STRATEGIES, greedy=chosen_groups):
        done = compile_request(request())
    assert any("differing elements" in one for one in disagreements(done, 0, 0))
