"""Chains in layers, timelines, tables and pages, beside what the reference machine counts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from embedded_data import plain
from rich.console import Console

from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import whole_work
from penstock.pipeline.compilation import Compilation, compile_graph
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import PlacedPoint
from penstock.program.steps import steps
from penstock.reports.layer import BandRange, Layer, Step, model_layers
from penstock.reports.layer_table import (
    EVERY_LAYER,
    LayerOrder,
    LayerSelection,
    LayerTable,
)
from penstock.reports.page.data import memory_data, stretches
from penstock.reports.report import Macs
from penstock.reports.steps import layers
from penstock.reports.traced import engine_times, timelines
from penstock.simulators.machine import Machine


@cache
def compiled() -> Compilation:
    """Two inverted bottlenecks with a streamed input."""
    net = GraphBuilder("bottlenecks")
    x = net.conv2d(net.input((1, 12, 16, 2)), 4, 3, name="stem")
    for k in range(2):
        wide = net.depthwise_conv2d(net.conv2d(x, 24, 1, name=f"wide{k}"), 3, name=f"deep{k}")
        x = net.conv2d(wide, 4, 1, name=f"narrow{k}")
    graph = net.build(net.fully_connected(x, 10, name="dense"))
    return compile_graph(graph, api.request("zoo:lenet5", "cortex-m4", stream_input=True))


@cache
def points() -> tuple[PlacedPoint, ...]:
    """The points with chains, of which some divide the columns and some do not."""
    return tuple(
        point
        for point in compiled().points
        if any(bands.call_rows is not None for bands in point.schedule.bands)
    )


@cache
def found(k: int) -> tuple[Step, ...]:
    """The layers of a point."""
    return layers(points()[k].schedule, lower_point(points()[k]))


def moving(point: PlacedPoint) -> frozenset[str]:
    """The tensors of which bands keep columns; the machine counts these moves as stripes."""
    return frozenset(kept.tensor for bands in point.schedule.bands for kept in bands.kept)


def test_f_of_each_layer_is_what_the_machine_computes() -> None:
    model = compiled().model
    (inputs,) = api.drawn_sets(compiled(), 1)
    sizes = {value.name: np.prod(value.type.shape) for value in model.variables()}
    for k, point in enumerate(points()):
        machine = Machine(lower_point(point))
        machine.run(inputs)
        for layer in found(k):
            regions = machine.counts.stripes.get(layer.name)
            if regions is not None and layer.name in sizes:
                computed = sum(region.elements * times for region, times in regions.items())
                moved = layer.name in moving(point)
                assert layer.factor <= computed / sizes[layer.name]
                assert moved or layer.factor == computed / sizes[layer.name]
    assert max(layer.factor for k in range(len(points())) for layer in found(k)) > 1.2


def test_f_of_the_layers_weighted_by_work_is_f_of_the_schedule() -> None:
    for k, point in enumerate(points()):
        factors = {layer.name: layer.factor for layer in found(k)}
        works = {node.name: whole_work(node).macs for node in compiled().model.nodes}
        executed = sum(factors.get(name, 1) * macs for name, macs in works.items())
        cost = point.schedule.cost
        assert round(executed) == cost.nominal_macs
        macs = Macs(compiled().model.macs(), cost.macs, cost.constant_macs)
        assert macs.factor == cost.nominal_macs / compiled().model.macs()


def test_bands_of_each_chain_follow_each_other() -> None:
    for k, point in enumerate(points()):
        chains = [bands for bands in point.schedule.bands if bands.call_rows is not None]
        for number, chain in enumerate(chains):
            own = [layer for layer in found(k) if layer.bands and layer.bands.chain == number]
            own = [layer for layer in own if layer.kind != "Slice"]  # columns that bands keep
            assert own
            for name in {layer.name for layer in own}:
                ranges = [layer.bands for layer in own if layer.name == name and layer.bands]
                ranges.sort(key=lambda one: one.lower)
                ends = [0, *(one.upper for one in ranges)]
                assert [one.lower for one in ranges] == ends[:-1]
                total = sum(band.count for band in chain.bands)
                assert {one.total for one in ranges} == {total}
                assert ends[-1] == total or (chain.keeps_halos and ends[-1] < total)
        sums = [
            sum(getattr(layer, key) for layer in found(k)) for key in ("cycles", "calls", "macs")
        ]
        cost = point.schedule.cost
        assert sums == [cost.cycles, cost.calls, cost.macs]
        numbers = [layer.step for layer in found(k) if layer.step is not None]
        assert numbers == list(range(len(steps(lower_point(point)))))


def test_chains_share_a_block_in_the_timeline() -> None:
    for k, point in enumerate(points()):
        (timeline,) = timelines(point.schedule, lower_point(point))
        assert timeline.peak_bytes == point.schedule.peak_bytes
        assert timeline.height_bytes == point.placement.height_bytes
        taken = np.zeros((timeline.ticks, timeline.height_bytes), np.int8)
        for span in timeline.spans:
            for piece in span.pieces:
                taken[piece.born : piece.dead, piece.lower_byte : piece.upper_byte] += 1
        assert taken.max() == 1
        whole = model_layers(found(k), compiled().model)
        blocks = plain(memory_data(timeline, whole, None))["blocks"]
        scratch = [set(block["layers"]) for block in blocks if block["kind"] == "scratch"]
        for cascade in {layer.cascade for layer in found(k) if layer.bands}:
            own = {
                n for n, one in enumerate(whole) if one.main.bands and one.main.cascade == cascade
            }
            assert any(own <= block for block in scratch)
        for stretch in plain(stretches(timeline.stretches, whole)):
            assert stretch["layers"]
            for n in stretch["layers"]:
                assert stretch["cascade"] in {step.cascade for step in whole[n].steps}
        times = engine_times(point.schedule)
        assert round(times.call_cycles[-1]) == point.schedule.cost.cycles


def text(whole: tuple[Layer, ...], selection: LayerSelection = EVERY_LAYER) -> str:
    """The table of layers on a wide terminal, blanks joined."""
    out = Console(width=200, color_system=None)
    with out.capture() as capture:
        out.print(LayerTable(whole, selection=selection))
    return "\n".join(" ".join(line.split()) for line in capture.get().splitlines())


def test_tables_have_columns_of_bands_and_f_only_with_bands() -> None:
    layer = next(layer for layer in found(0) if layer.factor > 1.2 and layer.bands)
    assert layer.bands is not None
    listed = text(chains(), LayerSelection(bands=True))
    assert "chain:" in listed
    assert f" {layer.bands.short} {layer.factor:.2f} " in listed
    last = compiled().points[-1]
    assert not last.schedule.bands
    assert "chain:" not in text(model_layers(layers(last.schedule, lower_point(last))))


def chains() -> tuple[Layer, ...]:
    named = (replace(one, origin=one.name) for one in found(0))
    return model_layers(tuple(named), compiled().model)


def test_steps_of_bands_are_listed_on_demand() -> None:
    whole = chains()
    several = [layer for layer in whole if len(layer.steps) > 1]
    assert several
    brief = text(whole)
    assert f"{len(several)} layers run in several steps, which --bands lists" in brief
    assert len(brief.splitlines()) < len(found(0)) + 9
    listed = text(whole, LayerSelection(bands=True))
    for step in several[0].steps:
        assert step.bands is not None
        assert f" {step.bands.short} {step.factor:.2f} " in listed
    top = LayerSelection(LayerOrder.CYCLES, top=1)
    first = max(whole, key=lambda layer: layer.cycles)
    assert f" {first.cycles:,} " in text(whole, top)


def test_a_layer_has_its_operator_though_bands_move_columns() -> None:
    kinds = {node.name: node.kind for node in compiled().model.nodes}
    for layer in chains():
        if any(step.moves for step in layer.steps):
            assert layer.kind == kinds[layer.name] != "Slice"
            assert layer.main.kind == layer.kind
            assert layer.kernels[0] == layer.main.kernel


def test_ranges_in_words() -> None:
    assert BandRange(1, 0, 1, 3).words == "chain 1, band 1 of 3"
    assert BandRange(None, 1, 3, 3).short == "2-3"
