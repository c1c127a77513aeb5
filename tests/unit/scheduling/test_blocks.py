"""Blocks: the rows that are placed as a unit."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from offloading import layer_by_layer
from penstock import api
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.graphs import read, simplify
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.search import schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule


def points(model: str, **options: Any) -> tuple[PlacedPoint, ...]:
    request = api.request(model, "cortex-m4", options=Options(**options))
    graph = simplify(read(model))
    parts = assign_engines(graph, request)
    frontier = schedule(parts, request.target, request.options)
    return place(frontier, request.target, request.options)


@pytest.fixture(scope="module")
def resnet() -> tuple[PlacedPoint, ...]:
    return points("zoo:resnet8", max_recompute=1.0)


def test_a_storage_is_one_block_or_one_for_each_row(resnet: tuple[PlacedPoint, ...]) -> None:
    for point in resnet:
        expanded = ExpandedSchedule(point.schedule)
        rows = point.schedule.parts.rows
        heights: defaultdict[str, list[int]] = defaultdict(list)
        for block in expanded.blocks():
            heights[block.storage].append(block.upper - block.lower)
        for name, found in heights.items():
            storage = rows.storages[rows.number[name]]
            assert storage.contiguous or found == [storage.rows] or set(found) == {1}


def test_rows_placed_one_by_one_leave_no_gaps() -> None:
    found = points("zoo:resnet8", accumulate=False, max_recompute=1.0)
    assert len(found) > 3
    assert max(p.placement.height_bytes / p.schedule.peak_bytes for p in found) <= 1.01
    assert found[0].placement.height_bytes == found[0].schedule.peak_bytes == 10_944


def test_where_totals_lie_among_rows_the_least_point_has_no_gaps(
    resnet: tuple[PlacedPoint, ...],
) -> None:
    assert resnet[0].placement.height_bytes == resnet[0].schedule.peak_bytes == 10_304


def test_a_network_that_runs_whole_has_whole_blocks() -> None:
    done = layer_by_layer(compile_request(api.request("zoo:resnet8")))
    rows = done.schedule.parts.rows
    for block in ExpandedSchedule(done.schedule).blocks():
        assert (block.lower, block.upper) == (0, rows.storages[rows.number[block.storage]].rows)
