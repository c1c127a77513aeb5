"""smv: networks on the reference machine and in C; tiles, costs and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

from available import SMALL_VWW, TARGET, path_of
from benchmarks.small_tensors import int8
from drawn_tilers import DrawnTiler
from lowered import inputs_of_graph
from offloading import compiled
from penstock import api
from penstock.api import drawn_sets
from penstock.backends.accelerator import Accelerator
from penstock.errors import BackendError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, Value
from penstock.ladder import run_point
from penstock.opkit.sliding import Window
from penstock.ops.pool import MaxPool2D
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.request import Request
from penstock.program.program import Call, Command, Invoke, Loop, Program
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine
from penstock.uma import Array, Driver, Offloaded
from penstock_smv import KERNELS, Smv
from penstock_smv.cost import cycles, register_loads
from penstock_smv.drivers import drivers
from penstock_smv.engine import SmvEngine
from penstock_smv.operations import LoadTile, ScratchpadNumber
from penstock_smv.tiling import tiling_of

HOST = load_target("host")
SMALL = {"input_bytes": 2000, "weights_bytes": 3000, "output_bytes": 1000}
VGG = "zoo:vgg16:alpha=0.25,resolution=32,classes=10"


def parts_on_smv(graph: Graph, **attributes: object) -> Parts:
    request = Request("smv", HOST, accelerators=(Smv().accelerator(attributes, HOST),))
    return assign_engines(graph, request)


def convolution(rows: int, channels: int, outputs: int, kernel: int = 3) -> Graph:
    net = GraphBuilder("net")
    x = net.input((1, rows, rows, channels))
    return net.build(net.conv2d(x, channels=outputs, kernel=kernel, name="conv"))


def offloaded(graph: Graph, **attributes: object) -> Offloaded:
    """The one node of a graph, on the engine."""
    accelerator = Smv().accelerator(attributes, HOST)
    (node,) = Smv().partition(graph, attributes, HOST).nodes
    assert isinstance(node.op, Composite)
    return Offloaded(node, accelerator.target)


def climbed(model: str, accelerator: Accelerator, target: str = "host") -> dict[str, int]:
    """By rung of the ladder, how many elements differ."""
    request = Request(path_of(model), load_target(target), accelerators=(accelerator,))
    return {rung.step: rung.comparison.mismatches for rung in api.verify(request).rungs}


@pytest.mark.parametrize(
    "model",
    [
        "zoo:lenet5",
        pytest.param("pretrainedResnet_quant", marks=pytest.mark.long),
        pytest.param("vww_96_int8", marks=pytest.mark.long),
        pytest.param("kws_ref_model", marks=pytest.mark.long),
    ],
)
def test_networks_run_bit_exactly_in_the_machine_and_in_c(model: str) -> None:
    found = climbed(model, Smv().accelerator({}, load_target(TARGET)), TARGET)
    assert found == {"machine": 0, "host": 0, "core": 0}


@pytest.mark.parametrize("seed", [1, 2])
def test_c_runs_tiles_of_any_kind(seed: int) -> None:
    smv = Smv()
    for op in KERNELS:
        smv._register_tiler(op, DrawnTiler(seed))
    assert climbed("zoo:lenet5", smv.accelerator({}, HOST)) == {"machine": 0, "host": 0}


@pytest.mark.long
@pytest.mark.parametrize("tiler", ["least_traffic", "smaug"])
def test_sums_are_cut_where_scratchpads_are_small(tiler: str) -> None:
    smv = Smv().accelerator({"tiler": tiler, "weights_bytes": 4096, "output_bytes": 2048}, HOST)
    found = climbed("pretrainedResnet_quant", smv)
    assert found == {"machine": 0, "host": 0}


def test_a_network_like_vgg_runs_bit_exactly() -> None:
    assert climbed(VGG, Smv().accelerator({}, HOST)) == {"machine": 0, "host": 0}


@pytest.mark.parametrize(
    ("model", "least_share"),
    [("zoo:resnet8", 0.6), (SMALL_VWW, 0.6), ("pretrainedResnet_quant", 0.6), ("vww_96_int8", 0.6)],
)
def test_cascades_need_little_memory_at_equal_macs(model: str, least_share: float) -> None:
    smv = (Smv().accelerator({}, HOST),)
    options = Options(max_recompute=1.0)
    request = Request(path_of(model), HOST, accelerators=smv, options=options)
    done = compile_request(request)
    whole = compile_request(replace(request, options=Options(max_parts=1)))
    least, layers = done.points[0], whole.points[-1]
    every = bytes_of_whole_layers(done.graph)
    striped = any(plan.stripe is not None for plan in layers.schedule.plans)
    assert layers.height_bytes < every if striped else layers.height_bytes == every
    assert least.height_bytes <= least_share * every
    assert least.schedule.cost.macs == layers.schedule.cost.macs
    (inputs,) = drawn_sets(done, 1)
    assert run_point(done, inputs, run_graph(done.model, inputs), least).mismatches == 0


def test_elements_wise_layers_of_every_rank_run_on_the_engine() -> None:
    net = GraphBuilder("net")
    x, y = net.input((1, 5, 4, 3)), net.input((1, 5, 4, 3))
    total = net.add(x, y)
    flat = net.fully_connected(net.reshape(total, (1, 60)), 7)
    graph = net.build(net.add(flat, flat))
    assert [left.node.kind for left in parts_on_smv(graph).cpu_fallbacks] == []


def test_vgg_conv1_2_is_tiled_where_smaug_does_not() -> None:
    """SMAUG's scratchpads hold 16,384 elements."""
    sizes = dict.fromkeys(SMALL, 16_384)
    graph = convolution(224, 64, 64)
    assert parts_on_smv(graph, **sizes).cpu_fallbacks == ()
    (left,) = parts_on_smv(graph, tiler="smaug", **sizes).cpu_fallbacks
    assert "no split dimensions make a tile of the input fit" in left.reason


def test_the_tiler_of_users_comes_first() -> None:
    smv = Smv()
    smv._register_tiler("nn.conv2d", DrawnTiler(3))
    smv._register_tiler("nn.conv2d", DrawnTiler(5))
    target = smv.accelerator({}, HOST).target
    found = replace(offloaded(convolution(6, 4, 8)), target=target)
    assert found.tiler(DrawnTiler(1)) == DrawnTiler(5)
    pool = GraphBuilder("pool")
    graph = pool.build(pool.max_pool2d(pool.input((1, 4, 4, 2)), 2))
    assert replace(offloaded(graph), target=target).tiler(DrawnTiler(1)) == DrawnTiler(1)


def test_cycles_are_those_of_smaugs_loops_and_of_copies() -> None:
    """By hand: 9 taps at 36 places for 8 outputs and 32 channels, 9 loads of registers; copies of
    36 x 32, 8 x 9 x 32, 8 x 9 and 36 x 8 bytes, 100 + 2 + bytes / 8 cycles each."""
    engine, copies = 9 * 36 + 9, 4 * 102 + (1152 + 2304 + 72 + 288) // 8
    conv = offloaded(convolution(6, 32, 8))
    assert tiling_of(conv).count == 1
    assert cycles(conv, 6).cycles == engine + copies
    assert (
        cycles(offloaded(convolution(6, 32, 8), double_buffering=True), 6).cycles == engine + copies
    )


def test_of_many_double_buffered_tiles_the_longer_of_copies_and_computation_counts() -> None:
    """As if each of n alike were copied while the engine computes on the one before."""
    conv = offloaded(convolution(16, 8, 24), double_buffering=True, **SMALL)
    tiling = tiling_of(conv, 16)
    copied, computed = float(tiling.copy_cycles), tiling.engine_cycles + register_loads(tiling)
    ends = [copied / tiling.count, computed / tiling.count]
    copies_done = engine_done = 0.0
    for _ in range(tiling.count):
        copies_done += ends[0]
        engine_done = max(engine_done, copies_done) + ends[1]
    assert tiling.count > 4
    assert cycles(conv, 16).cycles == pytest.approx(engine_done)


def test_double_buffered_tiles_leave_room_for_the_next() -> None:
    single = tiling_of(offloaded(convolution(32, 8, 8), **SMALL), 32)
    double = tiling_of(offloaded(convolution(32, 8, 8), double_buffering=True, **SMALL), 32)
    assert double.moved[0].tiles > single.moved[0].tiles > 1


class Traced(SmvEngine):
    """The engine, which notes what it touches: memory, and bytes [lower, upper)."""

    touched: ClassVar[list[tuple[str, list[tuple[int, int, int]]]]] = []

    def tile(
        self, memory: ScratchpadNumber, at: int, shape: tuple[int, ...], pitches: tuple[int, ...]
    ) -> Array:
        end = at + sum((n - 1) * p for n, p in zip(shape, pitches, strict=True)) + 1
        self.touched[-1][1].append((memory, at, end))
        return super().tile(memory, at, shape, pitches)


def noting(driver: Driver, sizes: tuple[int, int, int]) -> Driver:
    """The function of the driver, on the engine that notes."""

    def model(engine: Traced, *arguments: Any) -> None:
        engine.touched.append((driver.name, []))
        driver.model(engine, *arguments)

    return replace(driver, model=model, device=partial(Traced, sizes))


def together(one: Sequence[tuple[int, int, int]], other: Sequence[tuple[int, int, int]]) -> bool:
    """Whether they touch a byte in common."""
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in one for b in other)


@pytest.mark.parametrize("doubled", [False, True])
def test_double_buffered_tiles_are_copied_while_others_are_computed(doubled: bool) -> None:
    """What lies between two computations touches neither what the first one reads and writes, nor,
    where it is a store, what the second one does."""
    attributes = "input_bytes=2000,weights_bytes=3000,output_bytes=1000"
    graph = convolution(16, 8, 24)
    name = f"smv:double_buffering={str(doubled).lower()},{attributes}"
    done = compiled(graph, name, options=Options(max_parts=1))
    sizes = (2000, 3000, 1000)
    Traced.touched.clear()
    known = {driver.name: noting(driver, sizes) for driver in drivers("smv", sizes).values()}
    program = with_drivers(done.program, known)
    Machine(program).run(inputs_of_graph(graph, 1))
    steps = Traced.touched
    computed = [k for k, (name, _) in enumerate(steps) if name == "smv_conv2d"]
    conflicts = 0
    for first, second in pairwise(computed):
        for name, touched in steps[first + 1 : second]:
            conflicts += name == "smv_load" and together(touched, steps[first][1])
            conflicts += name == "smv_store" and together(touched, steps[second][1])
    assert len(computed) > 4
    assert (conflicts == 0) == doubled


def test_a_program_for_larger_scratchpads_fails_on_smaller_ones() -> None:
    """The functional model checks every access."""
    done = compile_request(Request("zoo:lenet5", HOST, accelerators=(Smv().accelerator({}, HOST),)))
    program = with_scratchpads(done.program, (2048, 2048, 2048))
    (inputs,) = drawn_sets(done, 1)
    with pytest.raises(BackendError, match="functional model of smv_") as caught:
        Machine(program).run(inputs)
    assert "of the 2048 bytes of" in caught.value.why


def test_a_copy_must_stay_within_its_scratchpad() -> None:
    (load,) = (d for d in drivers("smv", (64, 64, 64)).values() if d.name == "smv_load")
    engine = SmvEngine((64, 64, 64))
    source = np.arange(16, dtype=np.uint8)
    whole = LoadTile(ScratchpadNumber.INPUT, 48, source, 2, 8, 8, 8, 0)
    load.model(engine, whole)
    assert (engine.memories[ScratchpadNumber.INPUT][48:] == source).all()
    with pytest.raises(IndexError, match=r"bytes \[49, 65\) of the 64 bytes of inputs"):
        load.model(engine, replace(whole, to=49))
    with pytest.raises(IndexError, match="leave the memory"):
        load.model(engine, replace(whole, to=0, runs=3))


def bytes_of_whole_layers(graph: Graph) -> int:
    """The most bytes of tensors that are there at a time, layer by layer, each tensor whole."""
    last = {value.name: k for k, node in enumerate(graph.nodes) for value in node.inputs}
    sizes = {value.name: value.type.size_bytes for value in graph.variables()}
    first = {node.name: k for k, node in enumerate(graph.nodes)}
    return max(
        sum(
            size
            for name, size in sizes.items()
            if first.get(name, 0) <= k <= last.get(name, len(graph.nodes))
        )
        for k in range(len(graph.nodes))
    )


def with_scratchpads(program: Program, sizes: tuple[int, int, int]) -> Program:
    """The program on an engine with other scratchpads."""
    return with_drivers(program, {d.name: d for d in drivers("smv", sizes).values()})


def with_drivers(program: Program, known: Mapping[str, Driver]) -> Program:
    """The program, which calls other functions of these names."""

    def changed(command: Command) -> Command:
        match command:
            case Loop():
                return replace(command, body=tuple(map(changed, command.body)))
            case Call():
                return replace(command, body=tuple(map(changed, command.body)))
            case Invoke():
                return replace(command, driver=known[command.driver.name])
            case _:
                return command

    return replace(program, run=tuple(map(changed, program.run)))


def test_a_pool_that_leaves_rows_out_stays_with_the_processor() -> None:
    """It was claimed, and took rows one after the other."""
    type = int8(1, 5, 1, 2)
    x, y = Value("x", type), Value("y", replace(type, shape=(1, 1, 1, 2)))
    node = Node(MaxPool2D(Window(3, 1, 2), Window(1)), (x,), y, "pool")
    (left,) = parts_on_smv(Graph("pool", (x,), (y,), (node,))).cpu_fallbacks
    assert left.node == node
    assert "2 x 1" in left.reason
