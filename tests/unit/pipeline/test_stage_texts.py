"""Texts of stage results: round trips of graphs and schedules, and their length."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock import api
from penstock.errors import ModelError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ir.text.printer import print_graph
from penstock.pipeline import stages
from penstock.pipeline.emission import lower_point
from penstock.pipeline.request import Request
from penstock.pipeline.search import band_source
from penstock.pipeline.stages import STAGES, Context, Outcomes, run_stages
from penstock.pipeline.texts import print_stage
from penstock.program.text import ProgramContext, print_program
from penstock.scheduling.options import Options
from penstock.scheduling.text.printer import print_frontier, print_schedules
from texts.graph_reader import graph_from_text
from texts.schedule_reader import read_frontier
from tools.onnx_writer import Model

MAX_LINES = 200
"""Of LeNet5, at every stage."""
MAX_BYTES = 64 << 10
"""Of MobileNetV1 0.25 at 96 x 96, at every stage."""
LENET5, MOBILENET = "zoo:lenet5", "zoo:mobilenet_v1:alpha=0.25,resolution=96"


@cache
def outcomes(
    model: str, target: str = "cortex-m4", accelerator: str = ""
) -> tuple[Request, Outcomes]:
    """Every stage's result for a model."""
    accelerators = (accelerator,) if accelerator else ()
    request = api.request(model, target, accelerators=accelerators)
    return request, run_stages(STAGES, model, Context(request))


def texts(found: Outcomes) -> dict[str, str]:
    """By stage, the text that `penstock show` prints."""
    every = found.outcomes
    return {one.stage.name: print_stage(Outcomes(every[: k + 1])) for k, one in enumerate(every)}


def schedules_read_back(request: Request, found: Outcomes) -> None:
    parts, frontier = found.result(stages.ASSIGN), found.result(stages.SCHEDULE)
    bands = band_source(request.target, request.accelerators)
    back = read_frontier(print_frontier(frontier), parts, bands)
    assert without_functions(back) == without_functions(frontier)


def graphs_read_back(found: Outcomes) -> None:
    for stage in (stages.READ, stages.SIMPLIFY):
        graph = found.result(stage)
        assert graph_from_text(print_graph(graph, with_data=True)) == graph


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "two-region"])
def test_every_stage_of_lenet5_reads_back(target: str) -> None:
    request, found = outcomes(LENET5, target)
    graphs_read_back(found)
    schedules_read_back(request, found)


def test_every_stage_of_mobilenet_reads_back_and_stays_short() -> None:
    request, found = outcomes(MOBILENET)
    graphs_read_back(found)
    schedules_read_back(request, found)
    sizes = {name: len(text.encode()) for name, text in texts(found).items()}
    assert {name: size for name, size in sizes.items() if size > MAX_BYTES} == {}


@pytest.mark.parametrize("target", ["cortex-m4", "two-region"])
def test_lenet5_is_short_at_every_stage(target: str) -> None:
    _, found = outcomes(LENET5, target)
    lines = {name: len(text.splitlines()) for name, text in texts(found).items()}
    assert {name: count for name, count in lines.items() if count >= MAX_LINES} == {}


@pytest.mark.parametrize("accelerator", ["ethos_u55", "nvdla", "smv"])
def test_every_stage_with_an_accelerator_reads_back(accelerator: str) -> None:
    request, found = outcomes("zoo:lenet5:resolution=32", "cortex-m55", accelerator)
    graphs_read_back(found)
    schedules_read_back(request, found)


def without_functions(x: Any) -> Any:
    """Nested tuples of the fields of records; functions by their names."""
    if is_dataclass(x) and not isinstance(x, type):
        compared = (f.name for f in fields(x) if f.compare)
        return (type(x), *(without_functions(getattr(x, name)) for name in compared))
    if isinstance(x, tuple):
        items: tuple[Any, ...] = x
        return tuple(map(without_functions, items))
    return getattr(x, "__qualname__", type(x).__name__) if callable(x) else x


def test_every_stage_of_an_onnx_model_reads_back(tmp_path: Path) -> None:
    model = Model()
    x = model.node("Conv", model.input(1, 3, 12, 8), model.weights(4, 3, 3, 3), pads=[1, 1, 1, 1])
    x = model.node("Sigmoid", model.node("Concat", model.node("Relu", x), x, axis=1))
    x = model.node("Flatten", model.node("GlobalAveragePool", x), scale=None)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.raw(model.node("Gemm", x, model.weights(5, 8), transB=1)))
    request, found = outcomes(str(path))
    graphs_read_back(found)
    schedules_read_back(request, found)


def test_streamed_inputs_and_kept_inputs_read_back() -> None:
    request, _ = outcomes(LENET5)
    options = replace(request.options, keep_input=True)
    for changed in (replace(request, stream_input=True), replace(request, options=options)):
        found = run_stages(STAGES, LENET5, Context(changed))
        schedules_read_back(changed, found)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("frontier of lenet5", "frontier of lenet", "text-004"),
        (" cycles", "0 cycles", "text-004"),
        ("plan p3: logits", "plan p3: logic", "text-002"),
        ("plan p3: logits", "plan p2: logits", "text-001"),
        ("= p0, p1", "= p0, p99", "text-002"),
        ("cost c0, c1", "cost c0, c99", "text-002"),
        ("cost c0 = Cost", "cost c1 = Cost", "text-001"),
        ("cost c0 = Cost", "cost c0 = Gaps", "text-002"),
        ("memory MemoryAssignment", "memory MemoryAlignment", "text-002"),
        ("schedule ", "table ", "text-001"),
    ],
)
def test_a_damaged_frontier_is_refused(old: str, new: str, code: str) -> None:
    _, found = outcomes(LENET5)
    text = print_frontier(found.result(stages.SCHEDULE))
    assert old in text
    with pytest.raises(ModelError) as caught:
        read_frontier(text.replace(old, new), found.result(stages.ASSIGN))
    assert caught.value.code == code


def residual(conv1: str = "conv1") -> Graph:
    """A network of one cascade, wide in the middle, with a residual addition."""
    net = GraphBuilder("wide")
    x = net.conv2d(net.input((1, 12, 24, 2)), 12, 3, name=conv1)
    x = net.add(x, net.conv2d(x, 12, 3, name="conv2"), name="total")
    return net.build(net.conv2d(x, 2, 3, name="conv3"))


def two_cascades() -> Graph:
    """A network with two wide places, and with layers before, between and after them."""
    net = GraphBuilder("twice")
    x = net.conv2d(net.input((1, 10, 24, 2)), 2, 1, name="stem")
    x = net.conv2d(net.conv2d(x, 12, 3, name="wide1"), 2, 3, name="slim1")
    x = net.reshape(x, (1, 10, 24, 2))
    x = net.conv2d(net.conv2d(x, 12, 3, name="wide2"), 2, 3, name="slim2")
    return net.build(net.fully_connected(net.max_pool2d(x, 2, stride=2), 4))


def outcomes_within(
    tensors_bytes: int, graph: Graph, *, stream_input: bool = False
) -> tuple[Request, Outcomes]:
    """Every stage's result, but that of `read`, with a budget for tensors that only cascades in
    bands meet."""
    request = api.request(LENET5, "cortex-m4", options=Options(alternatives=False))
    request = replace(request, stream_input=stream_input)
    request = replace(request, sram_bytes=request.stack_bytes + tensors_bytes)
    return request, run_stages(STAGES[1:], graph, Context(request))


@cache
def in_bands() -> tuple[Request, Outcomes]:
    """The results for a network that needs the least memory in bands of columns."""
    return outcomes_within(1600, residual())


@pytest.mark.parametrize(
    ("graph", "tensors_bytes", "cascades", "stream_input"),
    [
        (residual(), 1600, 1, True),
        (residual("two words"), 1600, 1, False),
        (two_cascades(), 1200, 2, False),
        (two_cascades(), 1200, 2, True),
    ],
    ids=["residual, streamed", "quoted", "two", "two, streamed"],
)
def test_cascades_in_bands_read_back(
    graph: Graph, tensors_bytes: int, cascades: int, stream_input: bool
) -> None:
    request, found = outcomes_within(tensors_bytes, graph, stream_input=stream_input)
    schedules_read_back(request, found)
    placed = found.result(stages.PLACE)
    assert placed.chosen.schedule.bands
    points = [p for p in placed.points if p.schedule.bands]
    assert max(len(p.schedule.bands) for p in points) == cascades
    counts = {band.count for p in points for bands in p.schedule.bands for band in bands.bands}
    assert 1 in counts, "single bands"
    assert max(counts) > 1, "loops over bands"
    for point in points:
        text = print_program(lower_point(point, ()), ProgramContext.of(point.schedule))
        assert " band 0" in text


def test_a_cascade_in_bands_is_printed_with_the_assigned_parts() -> None:
    _, found = in_bands()
    text = print_frontier(found.result(stages.SCHEDULE))
    assert "plan p2: conv1, conv2, total, conv3 stripe 1 columns 2 cost c2\n" in text
    assert " of conv3 band " in print_stage(Outcomes(found.outcomes[:-1]))


PLAN = "plan p2: conv1, conv2, total, conv3 stripe 1 columns 2"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("columns 2 cost", "columns 0 cost", "text-004"),
        ("columns 2 cost", "columns -1 cost", "text-004"),
        ("columns 2 cost", "columns 25 cost", "text-004"),
        ("columns 2 cost", "columns wide cost", "text-001"),
        ("stripe 1 columns 2 cost", "stripe 0 columns 2 cost", "text-004"),
        ("stripe 1 columns 2 cost", f"stripe {10**30} columns 2 cost", "text-004"),
        ("stripe 1 columns 2 cost", "nearest columns 2 cost", "text-001"),
        (PLAN, "plan p2: conv1, conv2 columns 2", "text-004"),
        (PLAN, "plan p2: conv1, total, conv2, conv3 columns 2", "text-004"),
        (PLAN, "plan p2: conv1, conv1, conv3 columns 2", "text-004"),
        (" = p0", " = p0, p1", "text-004"),
        (" = p0", " = p0, p10", "text-004"),
    ],
)
def test_a_damaged_cascade_in_bands_is_refused(old: str, new: str, code: str) -> None:
    request, found = in_bands()
    text = print_frontier(found.result(stages.SCHEDULE))
    assert old in text
    bands = band_source(request.target, request.accelerators)
    with pytest.raises(ModelError) as caught:
        read_frontier(text.replace(old, new), found.result(stages.ASSIGN), bands)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("stripes p1 wide1 recompute", "stripes p1 wide1 rolling", "has other stripes of it"),
        ("offset=(0, 0, 0, 0)", "offset=(0, 1, 0, 0)", "has other stripes of it"),
        ("stripes p1 wide1", "stripes p2 wide1", "does not compute it"),
    ],
)
def test_damaged_stripes_are_refused(old: str, new: str, message: str) -> None:
    request, found = outcomes_within(1200, two_cascades())
    schedule = found.result(stages.PLACE).chosen.schedule
    text = f"frontier of twice\n{print_schedules((schedule,), with_stripes=True)}"
    parts, bands = found.result(stages.ASSIGN), band_source(request.target)
    assert read_frontier(text, parts, bands).schedules[0].plans == schedule.plans
    assert old in text
    with pytest.raises(ModelError, match=message):
        read_frontier(text.replace(old, new), parts, bands)


def test_bands_are_refused_without_a_source() -> None:
    _, found = in_bands()
    parts = found.result(stages.ASSIGN)
    with pytest.raises(ModelError, match="runs in bands of columns, which depend") as caught:
        read_frontier(print_frontier(found.result(stages.SCHEDULE)), parts)
    assert caught.value.code == "text-004"
