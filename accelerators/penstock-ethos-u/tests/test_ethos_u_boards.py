"""ethos_u: wait states of a board count in the cycles of the NPU, and the search sees them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from benchmarks.ethos_u_time import program_cycles
from boards import CONSTANT, BoardMemory, board
from penstock import api
from penstock.errors import UnsupportedError
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.pipeline.compilation import Compilation
from penstock.pipeline.emission import lower_point
from penstock_ethos_u.configurations import U55_128, U65_256, EthosUConfiguration, on_board

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")

BOARDS = {
    "no wait states": ((4.0, 0), (4.0, 0)),
    "2 bytes per cycle": ((2.0, 0), (2.0, 0)),
    "slow RAM": ((0.1, 8), (4.0, 0)),
    "slow flash": ((4.0, 0), (0.05, 40)),
}
"""(bandwidth, latency) of RAM and flash."""


def npu_alone() -> Graph:
    """Layers whose weights are small beside their tensors, and the other way round."""
    net = GraphBuilder("alone")
    x = net.conv2d(net.input((1, 32, 24, 3)), 16, 3, stride=2, name="stem")
    for k in range(2):
        x = net.conv2d(net.depthwise_conv2d(x, 3, name=f"wide{k}"), 16 << k, 1, name=f"deep{k}")
    return net.build(net.conv2d(x, 48, 3, stride=2, name="last"))


def in_turns() -> Graph:
    """Layers of the NPU before and after one of the processor."""
    net = GraphBuilder("turns")
    x = net.conv2d(net.input((1, 16, 12, 3)), 24, 3, name="a")
    x = net.conv2d(x, 16, 3, dilation=(1, 700), name="processor")
    return net.build(net.conv2d(net.depthwise_conv2d(x, 3, name="b"), 8, 1, name="c"))


def target(folder: Path, name: str) -> str:
    (ram, ram_latency), (flash, flash_latency) = BOARDS[name]
    own = folder / name
    own.mkdir(exist_ok=True)
    arena = BoardMemory("sram", 1 << 20, bandwidth=ram, latency=ram_latency)
    return board(own, arena, BoardMemory("flash", 1 << 20, CONSTANT, flash, flash_latency))


def done_on(graph: Graph, target: str) -> Compilation:
    wanted = {"accelerators": "ethos_u55:macs=128", "optimize": "speed"}
    return api.compile(graph, target, **wanted).compilation  # pyright: ignore[reportArgumentType]


def chip_of(name: str) -> EthosUConfiguration:
    """The NPU whose ports obtain what the memories of a board yield, if these limit the processor,
    after their latency."""
    (ram, ram_latency), (flash, flash_latency) = BOARDS[name]
    features, constants = U55_128.features, U55_128.constants
    return replace(
        U55_128,
        features=replace(
            features,
            bytes_per_cycle=min(features.bytes_per_cycle, ram if ram < 4 else 99),
            read_latency=features.read_latency + ram_latency,
            write_latency=features.write_latency + ram_latency,
        ),
        constants=replace(
            constants,
            bytes_per_cycle=min(constants.bytes_per_cycle, flash if flash < 4 else 99),
            read_latency=constants.read_latency + flash_latency,
            write_latency=constants.write_latency + flash_latency,
        ),
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Compilation]:
    """The network of the NPU, compiled for each board."""
    folder = tmp_path_factory.mktemp("boards")
    return {name: done_on(npu_alone(), target(folder, name)) for name in BOARDS}


def test_no_schedule_for_another_board_is_faster(alone: Mapping[str, Compilation]) -> None:
    assert not any(one.parts.cpu_fallbacks for one in alone.values())
    programs = {
        name: [lower_point(point, one.request.accelerators) for point in one.points]
        for name, one in alone.items()
    }
    for name, one in alone.items():
        chip = chip_of(name)
        cycles = {each: [program_cycles(p, chip) for p in programs[each]] for each in BOARDS}
        assert cycles[name] == [point.schedule.cost.cycles for point in one.points]
        if name != "no wait states":
            assert one.schedule.cost.cycles == min(min(each) for each in cycles.values()), name


def test_slower_memories_cost_cycles(alone: Mapping[str, Compilation]) -> None:
    fastest, *others = (alone[name].schedule.cost.cycles for name in BOARDS)
    assert fastest < min(others)


def test_beside_a_processor_no_schedule_for_another_board_is_faster(tmp_path: Path) -> None:
    names = ("2 bytes per cycle", "slow flash")
    paths = {name: target(tmp_path, name) for name in names}
    done = {name: done_on(in_turns(), path) for name, path in paths.items()}
    assert all(one.parts.cpu_fallbacks for one in done.values())
    compared = 0
    for name, other in permutations(names, 2):
        for point in done[other].points:
            wanted = {"accelerators": "ethos_u55:macs=128", "schedule": point.schedule}
            with suppress(UnsupportedError):  # it may copy segments of another size
                stated = api.compile(in_turns(), paths[name], **wanted)  # pyright: ignore
                cycles = stated.report.cycles.estimated
                assert done[name].schedule.cost.cycles <= cycles, (name, other)
                compared += 1
    assert compared > 3


def test_memories_that_do_not_limit_the_processor_leave_the_ports_as_they_are(
    tmp_path: Path,
) -> None:
    chip = load_target(target(tmp_path, "no wait states"))
    ram, flash = chip.memory_for("arena"), chip.memory_for("constant")
    for one in (U55_128, U65_256, U55_128.in_sram):
        assert on_board(one, ram, flash, 4.0) == one
        assert on_board(one, replace(ram, bandwidth_bytes_per_cycle=16.0), flash, 4.0) == one
    slow = on_board(U55_128.in_sram, replace(ram, burst_bytes=64), flash, 4.0)
    assert slow.constants is slow.features
    assert slow.features.burst_bytes == 64
