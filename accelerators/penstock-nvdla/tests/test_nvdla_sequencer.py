"""nvdla's queue of layers: the functional model counts the stated cycles, by hand and in networks;
programs wait before the processor runs a step, and nowhere else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from benchmarks.compiled_partition import compared, engine_cycles
from offloading import assert_exact, claimed, compiled
from penstock import api
from penstock.errors import InternalError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.program.program import Call, Command, Discard, Invoke, Loop, Program
from penstock.program.steps import Variables, iterations
from penstock.reports.steps import layers
from penstock.scheduling.options import Options
from penstock.simulators.machine import Machine
from penstock_nvdla.configurations import LARGE, SMALL
from penstock_nvdla.extension import WindowKind, WindowLayer
from penstock_nvdla.layer import (
    Accumulators,
    ConvolutionLayer,
    NvdlaMemory,
    Surface,
)
from penstock_nvdla.sequencer import Sequencer
from penstock_nvdla.task import LayerTraffic

MAIN, BUFFER = NvdlaMemory.MAIN, NvdlaMemory.FEATURE_BUFFER
POOL = WindowLayer(WindowKind.LARGEST, 8, 8, 32, 2, 2, Surface(256, 256), Surface(224, 224))
"""7 x 7 windows of 4 elements in 32 channels: 6,272 elements, 784 cycles on `large`."""


def test_a_layer_takes_its_latency_and_at_least_the_fetch_of_the_next_one() -> None:
    queue = Sequencer()
    taken = [0]

    def runs(source: NvdlaMemory, moved: Counter[NvdlaMemory]) -> int:
        queue.run(LARGE.extended(0, 0), POOL, moved, {source}, LayerTraffic(), combines=False)
        taken.append(queue.cycles)
        return taken[-1] - taken[-2]

    few = Counter({MAIN: 64})
    assert runs(BUFFER, few) == 1200 + 784  # nothing has been fetched
    assert runs(BUFFER, few) == 1200  # 128 + 784 are hidden by the fetch
    assert runs(MAIN, few) == 1200 + 784
    assert runs(BUFFER, Counter({MAIN: 64 * 2000, BUFFER: 64 * 3000})) == 128 + 3000
    queue.idle = True
    assert runs(BUFFER, few) == 1200 + 784
    assert queue.port_bytes == {MAIN: 4 * 64 + 64 * 2000, BUFFER: 64 * 3000}


def test_on_small_the_feature_buffer_has_no_latency() -> None:
    queue = Sequencer(idle=False)
    queue.run(
        SMALL.extended(0, 0), POOL, Counter({BUFFER: 8}), {BUFFER}, LayerTraffic(), combines=False
    )
    queue.run(
        SMALL.extended(0, 0), POOL, Counter({MAIN: 8}), {MAIN}, LayerTraffic(), combines=False
    )
    assert queue.cycles == 6272 + 50 + 6272


def test_a_second_tensor_is_combined_at_the_rate_of_unit_window() -> None:
    queue = Sequencer(idle=False)
    chip = LARGE.extended(0, 0)
    convolution = ConvolutionLayer(
        chip, 40, 40, 8, 32, 1, 1, Surface(1280, 0), Surface(1280, 0), Accumulators(0, 0), 4, 4, 40
    )
    for combines, cycles in ((False, 1600 * 32 // 16), (True, 1600 * 32 // 8)):
        queue.cycles = 0
        queue.run(
            chip, convolution, Counter({BUFFER: 64}), {BUFFER}, LayerTraffic(), combines=combines
        )
        assert queue.cycles == 128 + cycles


@pytest.mark.parametrize("config", ["small", "large"])
def test_compiled_networks_take_the_stated_cycles_by_every_strategy(config: str) -> None:
    found = compared("zoo:resnet8:resolution=16", config)
    assert [one.faults for one in found.strategies] == [()] * 4
    assert not found.failed
    layer, *_, best = found.strategies
    assert found.bound <= best.cycles < layer.cycles
    assert best.main_bytes < 0.7 * layer.main_bytes
    if config == "large":  # each layer saves latency
        assert best.cycles < 0.85 * layer.cycles


def network(partition: str, config: str = "large") -> Compilation:
    request = api.request(
        "zoo:resnet8:resolution=16",
        "host",
        accelerators=(f"nvdla:config={config}",),
        options=Options(partition=partition),
        optimize="speed",
    )
    return compile_request(request)


def counted(program: Program, done: Compilation) -> int:
    (inputs,) = api.drawn_sets(done, 1)
    machine = Machine(program)
    machine.run(inputs)
    queue = machine.device("nvdla")
    assert isinstance(queue, Sequencer)
    return queue.cycles


def test_without_waits_less_time_would_be_counted() -> None:
    done = network("best")
    stated = engine_cycles(done.schedule)
    assert counted(done.program, done) == stated
    run = tuple(c for c in done.program.run if not isinstance(c, Invoke))
    assert len(run) < len(done.program.run)
    assert counted(replace(done.program, run=run, waits=()), done) < stated
    with pytest.raises(InternalError, match="before the program waits") as caught:
        counted(replace(done.program, run=run), done)
    assert caught.value.code == "machine-012"


@pytest.mark.parametrize(
    ("attrs", "sram"),
    [("feature_buffer=0", 15_500), ("feature_buffer=0", 30_000), ("config=large", 16_000)],
)
def test_cascades_take_the_stated_cycles_although_rings_wrap_around(attrs: str, sram: int) -> None:
    request = api.request("zoo:resnet8", "host", accelerators=(f"nvdla:{attrs}",), sram=sram)
    done = compile_request(request)
    assert counted(done.program, done) == engine_cycles(done.schedule)
    if "config" not in attrs:
        assert any(plan.stripe for plan in done.schedule.plans)


def test_the_profile_states_the_cycles_of_each_layer() -> None:
    done = network("best")
    rows = [row for row in layers(done.schedule, done.program) if row.offloaded]
    assert sum(row.cycles for row in rows) == engine_cycles(done.schedule)
    assert any(row.breakdown and "cold start" in row.breakdown.by_resource for row in rows)
    for row in rows:
        assert row.breakdown is not None
        assert row.breakdown.cycles == row.cycles


def executed(
    commands: Sequence[Command], known: Variables, counters: dict[str, int]
) -> Iterator[Command]:
    """Commands in the order in which they run."""
    for command in commands:
        if isinstance(command, Loop):
            for inside in iterations(command, known, counters):
                yield from executed(command.body, inside, counters)
        elif not isinstance(command, Discard):
            yield command


@pytest.mark.parametrize("sram", [None, 15_500])
def test_a_wait_is_between_a_layer_and_a_step_of_the_processor_and_nowhere_else(
    sram: int | None,
) -> None:
    request = api.request(
        "zoo:resnet8", "host", accelerators=("nvdla:feature_buffer=0",), sram=sram
    )
    program = compile_request(request).program
    assert any(isinstance(c, Loop) for c in program.run) or sram is None
    pending = False
    for command in executed(program.run, {}, {}):
        if isinstance(command, Invoke):
            assert command.driver.name == "nvdla_wait"
            pending = False
        elif isinstance(command, Call) and command.engine == "nvdla":
            pending = True
        else:
            assert not pending, command
    assert not pending


def residual(width: int, channels: int, kernel: int, *, swapped: bool = False) -> Graph:
    """A convolution to whose result another one of the same input is added."""
    net = GraphBuilder("net")
    x = net.input((1, 70, width, channels), zero_point=5)
    side = net.max_pool2d(net.conv2d(x, 8, 1, name="side"), 1, 1, name="pool")
    y = net.conv2d(x, 8, kernel, activation="relu", name="conv")
    return net.build(net.add(*((side, y) if swapped else (y, side)), "relu", name="sum"))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_sum_runs_with_its_convolution_also_if_that_is_split(swapped: bool) -> None:
    done = compiled(residual(60, 32, 3, swapped=swapped), "nvdla:feature_buffer=8k")
    kinds = [node.kind for node in claimed(done.graph).values()]
    assert sum("add" in kind for kind in kinds) == 1
    assert "add" not in kinds
    (task,) = (
        row for row in layers(done.schedule, done.program) if row.offloaded and "sum" in row.name
    )
    assert task.breakdown is not None
    assert task.breakdown.by_resource["latency"] > 50  # several hardware layers
    assert_exact(done, "host")


def test_sums_of_other_shapes_or_of_one_result_stay_apart() -> None:
    net = GraphBuilder("net")
    x = net.input((1, 6, 6, 8))
    twice = net.conv2d(x, 8, 3, name="twice")
    both = net.add(twice, twice, name="both")
    read = net.conv2d(both, 8, 3, name="read")
    graph = net.build(net.add(read, both, name="last"), read)
    done = compiled(graph, "nvdla")
    assert [node.kind for node in claimed(done.graph).values()] == [
        *("nn.conv2d", "add", "nn.conv2d", "add"),
    ]
    assert_exact(done)


def test_without_a_feature_buffer_sums_stay_apart() -> None:
    kinds = [
        [node.kind for node in claimed(compiled(residual(6, 8, 1), attrs).graph).values()]
        for attrs in ("nvdla", "nvdla:feature_buffer=0")
    ]
    assert kinds[0] == ["nn.conv2d", "max_pool2d", "nn.conv2d+add"]
    assert kinds[1] == ["nn.conv2d", "max_pool2d", "nn.conv2d", "add"]
