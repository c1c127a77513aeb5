"""Copies of rows: cycles and bytes moved without them, with copies in, and also with copies out.

    python -m benchmarks.row_copies [--models FOLDER] [--network NAME ...] [--target TARGET]
                                    [--fast SIZE] [--slow RATE] [--speed N] [--run]

For each network, the arena sizes are those of the Pareto front without copies of rows; schedules
whose blocks do not fit the memories are left out. In each of them, the least cycles of the four
searches are compared: without copies, with copies in, with double-buffered copies in, and also with
copies out. A search is better in an arena if its cycles are lower than without copies. "ideal" is
the search without copies if the slow memory is as fast as the first faster one: an estimate of what
copies of any kind could save. "in bands" counts the Pareto-optimal schedules in bands of columns,
with their least recomputation factor F and the tensors that they keep outside the slow memory. The
table has the figures of the arena in which all copies together gain most. SIZE limits the first
faster memory of the target; RATE is the bandwidth of the slow memory in bytes per cycle; --speed
makes the processor N times as fast, beside the same memories.
With --run, the reference machine executes these schedules at their addresses, and its outputs and
bytes are compared with those of the graph and of the schedule.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.shared import find_shared
from penstock import api
from penstock.errors import InternalError
from penstock.hardware.target import MemoryRegion, Target
from penstock.pareto import frontier
from penstock.pipeline import stages
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placed_point import PlacedPoint
from penstock.pipeline.placing import place
from penstock.pipeline.request import Request
from penstock.pipeline.search import schedule
from penstock.pipeline.stages import run_through
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import Options
from penstock.simulators.graph import run_graph
from penstock.simulators.machine import Machine

NETWORKS = (
    "kws_ref_model",
    "vww_96_int8",
    "pretrainedResnet_quant",
    "person_detect",
    "mobilenetv2_160_035",
    "str_ww_ref_model",
    "rand_mobilenet_v1_0.25_128_int8",
)
SEARCHES = {
    "without": Options(row_copies=False),
    "copies": Options(row_double_buffering=False),
    "double": Options(row_copies_out=False),
    "out": Options(),
}
IDEAL = "ideal"


@dataclass(frozen=True, slots=True)
class Found:
    """The Pareto fronts of a network, by search."""

    parts: Parts
    fronts: Mapping[str, tuple[Schedule, ...]]

    @staticmethod
    def of(request: Request) -> Found:
        """Searches a network four times; schedules whose blocks do not fit are left out."""
        parts = run_through(request, "assign").result(stages.ASSIGN)
        fronts: dict[str, tuple[Schedule, ...]] = {}
        for name, options in SEARCHES.items():
            every = schedule(parts, request.target, options).schedules
            fitting = (one for one in every if placed(one, request).fits(request.target))
            fronts[name] = tuple(frontier(fitting, _bytes_and_cycles))
        every = schedule(parts, without_slow_memory(request.target), SEARCHES["without"]).schedules
        fronts[IDEAL] = tuple(frontier(every, _bytes_and_cycles))
        return Found(parts, fronts)

    @property
    def arenas(self) -> tuple[int, ...]:
        """The sizes of the arena, in bytes, at which the searches are compared."""
        return tuple(one.peak_bytes for one in self.fronts["without"])

    def fastest(self, search: str, arena_bytes: int) -> Schedule:
        """The fastest schedule of a search in an arena."""
        fitting = (one for one in self.fronts[search] if one.peak_bytes <= arena_bytes)
        return min(fitting, key=lambda one: one.cost.cycles)

    def gain(self, search: str, arena_bytes: int) -> float:
        """The fraction of the cycles without copies that a search saves in an arena."""
        cycles, before = (
            self.fastest(name, arena_bytes).cost.cycles for name in (search, "without")
        )
        return 1 - cycles / before


def _bytes_and_cycles(found: Schedule) -> tuple[int, int]:
    return found.peak_bytes, found.cost.cycles


def main(arguments: Sequence[str]) -> int:
    """Prints a table with five rows for each network."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.row_copies", description=__doc__)
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--target", default="two-region", help="has two memories, a copy engine")
    parser.add_argument("--fast", type=int, metavar="SIZE", help="bytes of the faster memory")
    parser.add_argument("--slow", type=float, metavar="RATE", help="of the slow memory")
    parser.add_argument("--speed", type=float, default=1, metavar="N", help="of the processor")
    parser.add_argument("--run", action="store_true", help="run the schedules on the machine")
    wanted = parser.parse_args(arguments)
    table = Table(title=f"copies of rows, {wanted.target}")
    for heading in (
        "network",
        "search",
        "arenas better",
        "arena",
        "cycles",
        "saved",
        "in bands",
        "bytes moved",
    ):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    for path in find_shared(wanted.models).named(wanted.network or list(NETWORKS)):
        request = api.request(path, wanted.target)
        if wanted.fast is not None:
            fast = request.target.memories_for("arena")[1].name
            request = api.request(path, wanted.target, memory={fast: wanted.fast})
        target = accelerated(request.target, wanted.speed)
        request = replace(request, target=with_slow_memory(target, wanted.slow))
        found = Found.of(request)
        arena = max(found.arenas, key=lambda size: found.gain("out", size))
        for search in (*SEARCHES, IDEAL):
            one = found.fastest(search, arena)
            better = sum(found.gain(search, size) > 0 for size in found.arenas)
            table.add_row(
                path.stem,
                search,
                f"{better} of {len(found.arenas)}",
                shown(arena),
                shown(one.cost.cycles),
                f"{100 * found.gain(search, arena):.3f} %",
                in_bands(found.fronts[search]),
                moved(one),
            )
            if wanted.run and search != IDEAL:
                run(found.parts, one, request)
    console().print(table)
    return 0


def accelerated(target: Target, factor: float) -> Target:
    """The target with a processor that computes `factor` times as fast."""
    processor, *others = target.engines
    names = ("cycles_per_mac", "cycles_per_element", "cycles_per_loop", "cycles_per_call")
    faster = {name: getattr(processor, name) / factor for name in names}
    return replace(target, engines=(replace(processor, **faster), *others))


def with_slow_memory(target: Target, rate: float | None) -> Target:
    """The target with another bandwidth of the memory of inputs and outputs; None: the same."""
    slow = target.memories_for("arena")[0]
    if rate is None:
        return target
    return _with_memory(target, replace(slow, bandwidth_bytes_per_cycle=rate))


def without_slow_memory(target: Target) -> Target:
    """The target whose memory of inputs and outputs is as fast as the first faster memory."""
    slow, fast = target.memories_for("arena")[:2]
    rate, latency = fast.bandwidth_bytes_per_cycle, fast.latency_cycles
    return _with_memory(
        target, replace(slow, bandwidth_bytes_per_cycle=rate, latency_cycles=latency)
    )


def _with_memory(target: Target, memory: MemoryRegion) -> Target:
    """The target with another memory of the same name."""
    every = (memory if one.name == memory.name else one for one in target.memories)
    return replace(target, memories=tuple(every))


def in_bands(front: Sequence[Schedule]) -> str:
    """The number of schedules in bands, their least F, and their tensors in other memories."""
    banded = [one for one in front if one.bands]
    if not banded:
        return "0"
    least = min(one.cost.macs for one in front)
    factor = min(one.cost.macs for one in banded) / least
    tensors = sum(len(one.memory.exceptions) for one in banded)
    return f"{len(banded)} (F {factor:.3f}, {tensors} tensors)"


def moved(found: Schedule) -> str:
    """The bytes that a schedule reads and writes in each memory."""
    read, written = dict(found.cost.read_bytes), dict(found.cost.written_bytes)
    names = sorted({*read, *written})
    return ", ".join(f"{name} {read.get(name, 0) + written.get(name, 0):,}" for name in names)


def placed(found: Schedule, request: Request) -> PlacedPoint:
    """The schedule with the addresses of its blocks."""
    (point,) = place(Frontier((found,)), request.target, request.options)
    return point


def run(parts: Parts, found: Schedule, request: Request) -> None:
    """Runs a schedule on the machine.  Raises InternalError if its results or bytes differ."""
    point = placed(found, request)
    machine = Machine(lower_point(point))
    random = np.random.default_rng(1)
    inputs = {
        v.name: random.integers(-128, 128, v.type.shape).astype(v.type.dtype.value)
        for v in parts.graph.inputs
    }
    outputs, expected = machine.run(inputs), run_graph(parts.graph, inputs)
    read = {name: size for name, size in machine.counts.read_bytes.items() if size}
    same = all(np.array_equal(value, expected[name]) for name, value in outputs.items())
    if not same or read != dict(found.cost.read_bytes) or not point.fits(request.target):
        raise InternalError("bench-046", f'a schedule of "{parts.graph.name}" runs otherwise')


if __name__ == "__main__":
    entry(main)
