"""Timelines and layers of real cascades equal the placement and the lowered program."""

from __future__ import annotations

import numpy as np
import pytest
from small_compilation import Count

from penstock import api
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.emission import lower_point
from penstock.pipeline.graphs import read, simplify
from penstock.pipeline.placing import PlacedPoint, place
from penstock.pipeline.search import schedule
from penstock.program.steps import steps
from penstock.reports.layer import model_layers, with_counts
from penstock.reports.making import striped
from penstock.reports.steps import layers
from penstock.reports.timeline import Timeline
from penstock.reports.traced import timelines
from penstock.scheduling.options import Options

MODEL = "zoo:resnet8"
Points = tuple[PlacedPoint, ...]


@pytest.fixture(scope="module", params=[False, True], ids=["array", "streamed"])
def points(request: pytest.FixtureRequest) -> Points:
    """The frontier of a network with residuals, its input an array or streamed."""
    by_rows = Options(max_recompute=1.0)
    wanted = api.request(MODEL, "cortex-m4", stream_input=request.param, options=by_rows)
    parts = assign_engines(simplify(read(MODEL)), wanted)
    frontier = schedule(parts, wanted.target, wanted.options)
    return place(frontier, wanted.target, wanted.options)


def drawn(point: PlacedPoint) -> Timeline:
    return timelines(point.schedule, lower_point(point))[0]


def test_the_peak_of_every_timeline_is_its_schedule_s_and_its_height_the_placement_s(
    points: Points,
) -> None:
    for point in points:
        found = drawn(point)
        assert found.peak_bytes == point.schedule.peak_bytes
        assert found.height_bytes == point.placement.height_bytes
        assert sum(stretch.calls for stretch in found.stretches) == point.schedule.cost.calls


def test_no_byte_holds_two_rows_at_a_time(points: Points) -> None:
    for point in points:
        found = drawn(point)
        taken = np.zeros((found.ticks, found.height_bytes), np.int8)
        for span in found.spans:
            for piece in span.pieces:
                taken[piece.born : piece.dead, piece.lower_byte : piece.upper_byte] += 1
        assert taken.max() == 1
        assert (taken.sum(axis=1) == found.live_bytes).all()


def test_layers_stand_in_the_order_of_the_program_s_steps(points: Points) -> None:
    for point in points:
        program = lower_point(point)
        found = layers(point.schedule, program)
        numbered = {layer.name: layer.step for layer in found if layer.step is not None}
        assert numbered == {step.output.tensor: k for step, k in steps(program).items()}
        assert list(numbered.values()) == sorted(numbered.values())
        assert sum(layer.cycles for layer in found) == point.schedule.cost.cycles


def test_layers_say_in_which_cascade_they_run_and_what_they_read(points: Points) -> None:
    point = points[0]
    found = layers(point.schedule, lower_point(point))
    for number, cascade in enumerate(striped(point.schedule)):
        mine = [layer for layer in found if layer.cascade == number]
        assert len(mine) == cascade.layers
        assert sum(layer.calls for layer in mine) == cascade.calls
        assert max(layer.rows or 0 for layer in mine) <= cascade.rows
    assert all((layer.cascade is None) == (layer.rows is None) for layer in found)
    for position, layer in enumerate(found):
        assert all(read < position for read in layer.reads)
    adds = [layer for layer in found if layer.kind == "Add"]
    assert adds
    assert all(len(layer.reads) == 2 for layer in adds)


def test_measurements_stand_beside_the_layers_of_their_steps(points: Points) -> None:
    point = points[0]
    found = layers(point.schedule, lower_point(point))
    numbered = sum(layer.step is not None for layer in found)
    counts = [Count(1000 + k, k) for k in range(numbered)]
    for layer in model_layers(with_counts(found, counts)):
        for step in layer.steps:
            expected = None if step.step is None else 1000 + step.step
            assert step.simulated_cycles == expected


def test_every_memory_has_its_timeline() -> None:
    wanted = api.request(MODEL, "two-region", options=Options(max_stripe=2), optimize="speed")
    compiled = api.compile(wanted)
    arena, fast = compiled.timelines
    program = compiled.compilation.program
    assert [arena.memory, fast.memory] == [None, "tcm"]
    assert [t.height_bytes for t in compiled.timelines] == [m.size_bytes for m in program.ram()]
    names = [span.name for t in compiled.timelines for span in t.spans]
    assert len(set(names)) == len(names)
    assert {span.kind for span in fast.spans} == {"arena"}
