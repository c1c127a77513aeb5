"""Memories that do not count as RAM (`budget = false`), in every place of a target file."""

from __future__ import annotations

from pathlib import Path

import pytest

from boards import FLASH, BoardMemory, board
from penstock import api
from penstock.errors import CapacityError
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph

KIB = 1024


def network(bottlenecks: int = 0) -> Graph:
    net = GraphBuilder("net")
    x = net.conv2d(net.input((1, 16, 16, 4)), 16, 3, name="wide")
    x = net.conv2d(net.depthwise_conv2d(x, 3, name="inner"), 4, 1, name="narrow")
    for k in range(bottlenecks):
        x = net.conv2d(net.conv2d(x, 24, 1, name=f"expand{k}"), 8, 3, 2, name=f"reduce{k}")
    return net.build(x)


def psram(size: int = 2048 * KIB) -> BoardMemory:
    return BoardMemory("psram", size, bandwidth=1, latency=8, budget=False)


def sram(size: int) -> BoardMemory:
    return BoardMemory("sram", size)


def test_a_free_memory_alone_holds_the_network(tmp_path: Path) -> None:
    report = api.compile(network(), board(tmp_path, psram(), FLASH)).report
    assert report.ram_bytes.total == report.ram_bytes.stack
    assert report.free_bytes["psram"] >= 16 * 16 * 4
    assert report.memory_bytes == report.free_bytes


def test_bytes_that_do_not_count_are_not_saved(tmp_path: Path) -> None:
    """The fastest schedule is whole layers, whatever it needs of a memory that does not count."""
    free = api.compile(network(), board(tmp_path, psram(), FLASH))
    counted = api.compile(
        network(),
        board(tmp_path, BoardMemory("psram", 2048 * KIB, bandwidth=1, latency=8), FLASH),
        optimize="speed",
    )
    assert free.report.cycles.estimated == counted.report.cycles.estimated


def test_a_small_free_memory_gets_a_schedule_that_fits(tmp_path: Path) -> None:
    whole = api.compile(network(), board(tmp_path, psram(), FLASH)).report.free_bytes["psram"]
    size = whole // 2
    report = api.compile(network(), board(tmp_path, psram(size), FLASH)).report
    assert report.free_bytes["psram"] <= size < whole


@pytest.mark.parametrize("is_first", [True, False])
def test_the_memory_that_counts_is_saved(tmp_path: Path, is_first: bool) -> None:
    memories = (psram(), sram(8 * KIB)) if is_first else (sram(8 * KIB), psram())
    path = board(tmp_path, *memories, FLASH)
    most = api.compile(network(2), path, optimize="speed").report
    budget = most.ram_bytes.total - 512
    less = api.compile(network(2), path, sram=budget).report
    assert less.ram_bytes.total <= budget
    assert less.cycles.estimated >= most.cycles.estimated
    assert len(most.frontier) > 4


def test_two_memories_that_count_are_saved_together(tmp_path: Path) -> None:
    """A schedule that uses both memories may need less of them than one in the first memory."""
    slow = BoardMemory("slow", 64 * KIB, bandwidth=1, latency=8)
    alone = api.compile(network(2), board(tmp_path, slow, FLASH)).report
    path = board(tmp_path, slow, sram(6 * KIB), FLASH)
    both = api.compile(network(2), path, sram=alone.ram_bytes.total).report
    assert both.ram_bytes.total <= alone.ram_bytes.total
    assert both.cycles.estimated < alone.cycles.estimated
    assert both.memory_bytes.keys() == {"slow", "sram"}
    assert sum(both.memory_bytes.values()) + both.ram_bytes.stack == both.ram_bytes.total


def test_a_network_is_refused_in_terms_of_the_memory_that_is_too_small(tmp_path: Path) -> None:
    path = board(tmp_path, psram(600), FLASH)
    with pytest.raises(CapacityError) as caught:
        api.compile(network(), path)
    said = caught.value
    assert said.what.startswith("the network needs ")
    assert said.what.endswith(" bytes of psram, there are 600")
    assert "use at least --memory psram=" in said.help
    size = int(said.help.split("psram=")[1].split(";")[0])
    api.compile(network(), path, memory={"psram": size})


def test_no_remedy_is_empty(tmp_path: Path) -> None:
    """A budget below the stack, on boards without a memory that counts, and with one."""
    for memories in ((psram(),), (psram(), sram(4 * KIB)), (sram(4 * KIB), psram())):
        with pytest.raises(CapacityError) as caught:
            api.compile(network(), board(tmp_path, *memories, FLASH), sram=512)
        assert "at least ;" not in caught.value.help
        assert "at least --sram" in caught.value.help


def test_a_burst_costs_the_bytes_that_an_access_does_not_need(tmp_path: Path) -> None:
    """As much as the latency in which the memory transfers them."""
    bursts = BoardMemory("ram", 64 * KIB, bandwidth=2, latency=3, burst=33)
    waits = BoardMemory("ram", 64 * KIB, bandwidth=2, latency=3 + 32 // 2)
    single = BoardMemory("ram", 64 * KIB, bandwidth=2, latency=3)
    found = [
        api.compile(network(), board(tmp_path, memory, FLASH), optimize="speed").report
        for memory in (bursts, waits, single)
    ]
    assert found[0].cycles == found[1].cycles != found[2].cycles
