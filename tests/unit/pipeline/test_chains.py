"""Cascades in which chains recompute intermediate tensors, from the search to generated C."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from penstock import api
from penstock.alternatives import Planned, planned
from penstock.choices import Optimize
from penstock.errors import InternalError
from penstock.frontends.builder import GraphBuilder
from penstock.ladder import Truth, climb, run_point
from penstock.pipeline.choosing import chosen_index
from penstock.pipeline.compilation import Compilation, compile_graph, with_point
from penstock.pipeline.placing import PlacedPoint
from penstock.pipeline.search import band_source
from penstock.program.expr import binary
from penstock.program.program import Call, Command, Discard, Loop
from penstock.program.steps import walk
from penstock.scheduling.bands.band_schedule import assigned_plans
from penstock.scheduling.options import Options
from penstock.scheduling.text.printer import print_frontier
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from texts.schedule_reader import read_frontier


@cache
def compiled(max_recompute: float = 2.0) -> Compilation:
    """Inverted bottlenecks, whose expanded tensors are wide between narrow ones."""
    net = GraphBuilder("bottlenecks")
    x = net.conv2d(net.input((1, 20, 24, 2)), 4, 3, name="stem")
    for k, stride in enumerate((1, 2)):
        wide = net.conv2d(x, 24, 1, name=f"expand{k}")
        wide = net.depthwise_conv2d(wide, 3, stride, name=f"depthwise{k}")
        y = net.conv2d(wide, 4, 1, name=f"project{k}")
        x = net.add(x, y, name=f"sum{k}") if stride == 1 else y
    graph = net.build(net.fully_connected(x, 10, name="dense"))
    options = Options(max_recompute=max_recompute)
    request = replace(api.request("zoo:lenet5", "cortex-m4", options=options), stream_input=True)
    return compile_graph(graph, request)


def factor(point: PlacedPoint) -> float:
    """Executed multiply-accumulates as a multiple of the necessary ones."""
    return point.schedule.cost.nominal_macs / compiled().model.macs()


def with_chains() -> tuple[PlacedPoint, ...]:
    """The points whose cascades contain chains."""
    return tuple(
        point
        for point in compiled().points
        if any(bands.call_rows is not None for bands in point.schedule.bands)
    )


def test_chains_need_less_memory_than_rows_within_the_limit() -> None:
    rows = compiled(1.0).points
    assert not any(point.schedule.bands for point in rows)
    assert with_chains()[0].height_bytes < 0.8 * rows[0].height_bytes
    assert all(1.0 <= factor(point) <= 2.0 for point in with_chains())
    assert max(map(factor, with_chains())) > 1.0


def test_figures_of_other_options_are_those_of_the_whole_frontier() -> None:
    done = compiled()
    sizes = [point.ram_bytes(done.request) for point in done.points]
    assert sum(bool(point.schedule.bands) for point in done.points) > 2
    for budget, goal in product((None, sizes[1]), Optimize):
        request = replace(done.request, sram_bytes=budget, optimize=goal)
        chosen = chosen_index(done.points, request)
        figures = None
        if chosen is not None:
            figures = sizes[chosen], done.points[chosen].schedule.cost.cycles
        assert planned(done.model, request) == Planned(sizes[0], figures)


def test_every_point_is_exact_and_costs_what_was_estimated() -> None:
    done = compiled()
    (inputs,) = api.drawn_sets(done, 1)
    reference = {**inputs, **run_graph(done.model, inputs)}
    for point in done.points:
        found = run_point(done, inputs, reference, point)
        assert (found.mismatches, found.tensors > 6) == (0, True)


def test_the_live_bytes_of_a_point_are_those_of_its_search() -> None:
    for point in with_chains():
        assert point.placement.bound_bytes == point.schedule.peak_bytes


def test_generated_c_computes_chains_exactly() -> None:
    pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    pytest.importorskip("ziglang", reason="the extra 'simulate' is not installed")
    done = with_point(compiled(), with_chains()[0])
    rungs = {rung.step: rung.comparison for rung in climb(done, Truth(), api.drawn_sets(done, 2))}
    assert set(rungs) == {"machine", "host", "core"}
    assert all(found.elements and not found.mismatches for found in rungs.values())
    assert len({found.elements for found in rungs.values()}) == 1  # those in bands, too


def test_rows_of_an_earlier_call_must_not_be_read() -> None:
    """Machine: a call that does not recompute its first row would read that of an earlier call."""
    done = with_point(compiled(), with_chains()[0])
    discarded = {c.buffer for c in walk(done.program.run) if isinstance(c, Discard)}
    shortened = replace(done.program, run=_recomputing_less(done.program.run, discarded))
    assert shortened != done.program
    (inputs,) = api.drawn_sets(done, 1)
    Machine(done.program).run(inputs)
    with pytest.raises(InternalError, match="is read where it is not"):
        Machine(shortened).run(inputs)


def _recomputing_less(commands: tuple[Command, ...], buffers: set[str]) -> tuple[Command, ...]:
    """Replace every call that writes one of the buffers, but for the first rows, by one for one row
    less."""
    found: list[Command] = []
    for command in commands:
        if isinstance(command, Loop):
            command = replace(command, body=_recomputing_less(command.body, buffers))
        elif isinstance(command, Call) and command.output.buffer in buffers:
            less = binary("+", command.lower, binary("min", command.lower, 1))
            command = replace(command, lower=less)
        found.append(command)
    return tuple(found)


def test_columns_that_a_band_kept_must_be_those_that_the_next_one_reads() -> None:
    """Machine: if kept columns are not moved, a call reads those of the band before the last."""
    done = with_point(compiled(), with_chains()[0])
    kept = {one.tensor for bands in done.schedule.bands for one in bands.kept}
    assert {"stem", "expand0"} <= kept
    unmoved = replace(done.program, run=_without_moves(done.program.run, kept))
    (inputs,) = api.drawn_sets(done, 1)
    with pytest.raises(InternalError, match="is read where it is not"):
        Machine(unmoved).run(inputs)


def _without_moves(commands: tuple[Command, ...], buffers: set[str]) -> tuple[Command, ...]:
    """Leave out the calls that move columns inside one of the buffers."""
    found: list[Command] = []
    for command in commands:
        if isinstance(command, Loop):
            command = replace(command, body=_without_moves(command.body, buffers))
        elif isinstance(command, Call):
            target = command.output.buffer
            if target in buffers and target in (view.buffer for view in command.inputs):
                continue
        found.append(command)
    return tuple(found)


def test_kept_columns_save_recomputation() -> None:
    """Fewer multiply-accumulates than with bands of the same width that compute their halos."""
    schedule = with_chains()[0].schedule
    source = band_source(compiled().request.target)
    for plan in assigned_plans(schedule):
        for chain in (chain for chain in plan.chains if chain.keeps_halos):
            both = [
                source.bands(
                    compiled().parts,
                    replace(plan.bare, chains=(replace(chain, keeps_halos=keeps),)),
                )
                for keeps in (False, True)
            ]
            recomputed, kept = (
                sum(band.parts.graph.macs() * band.count for band in bands.bands)
                for (bands,) in (some for some in both if some is not None)
            )
            assert kept < recomputed


def test_texts_of_chains_read_back() -> None:
    done = compiled()
    text = print_frontier(done.frontier)
    assert " kept" in text
    assert read_frontier(text, done.parts, band_source(done.request.target)) == done.frontier
