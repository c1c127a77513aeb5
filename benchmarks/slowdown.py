"""Slowdown: cost of running in less memory on a Cortex-M4.

    python -m benchmarks.slowdown [--models FOLDER] [--network NAME ...]

For every point of the frontier: RAM with the stack reserve, measured stack, scratch inside of the
arena, counted and estimated cycles, and both relative to the counted cycles of layer-by-layer
execution. Exits with 1 if a point takes more than LIMIT times those, if the estimate is off by more
than WRONG, or if the RAM of the linked objects differs from the report.

`waits` assumes WAITS wait states of flash without cache and prefetch: flash is read in lines of
LINE_BYTES; each line costs the wait states when execution enters it sequentially or by a taken
branch. Reads of constants are not counted; every schedule reads the same weights equally often, so
that they would move the ratio towards 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.figures import TARGET
from benchmarks.shared import find_shared
from penstock import api, execution
from penstock.pipeline.compilation import Compilation, compile_request, with_point
from penstock.scheduling.options import Options
from penstock.simulators.counts import ExecutionCounts

NETWORKS = ("vww_96_int8", "kws_ref_model", "pretrainedResnet_quant", "ad01_int8")
LIMIT = 1.15
WRONG = 0.10
WAITS = 4
LINE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Measured:
    """A schedule on the simulated core; `linked_bytes`: RAM of the linked objects."""

    arena_bytes: int
    linked_bytes: int
    reserve_bytes: int
    stack_bytes: int
    scratch_bytes: int
    counts: ExecutionCounts
    estimated: int

    @property
    def error(self) -> float:
        return self.estimated / self.counts.cycles - 1

    @property
    def fits(self) -> bool:
        """Whether the linked RAM equals the reported RAM."""
        return self.arena_bytes == self.linked_bytes and self.stack_bytes <= self.reserve_bytes


@dataclass(frozen=True, slots=True)
class Network:
    """The points of a network in ascending order of memory, and layer-by-layer execution."""

    name: str
    layers: Measured
    points: tuple[Measured, ...]

    def missed(self, point: Measured) -> bool:
        """Whether a point exceeds a limit."""
        too_slow = point.counts.cycles > LIMIT * self.layers.counts.cycles
        return too_slow or abs(point.error) > WRONG or not point.fits


def main(arguments: Sequence[str]) -> int:
    """Prints a table for each network; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slowdown", description=__doc__)
    parser.add_argument("--models", type=Path, help="folder of models")
    parser.add_argument("--network", action="append", help="only this network; repeatable")
    wanted = parser.parse_args(arguments)
    models = find_shared(wanted.models).named(wanted.network or list(NETWORKS))
    networks = [measure(str(path)) for path in models]
    out = console()
    for network in networks:
        out.print(table(network))
    return int(any(n.missed(point) for n in networks for point in n.points))


def measure(model: str) -> Network:
    """Runs every point of a network, and the network layer by layer."""
    whole = compile_request(
        api.request(model, TARGET, options=Options(accumulate=False, max_parts=1))
    )
    done = compile_request(api.request(model, TARGET))
    return Network(done.model.name, on_core(whole), tuple(_points(done)))


def _points(done: Compilation) -> Iterator[Measured]:
    return (on_core(with_point(done, point)) for point in done.points)


def on_core(done: Compilation) -> Measured:
    """One inference of a compilation's schedule."""
    with execution.firmware(done) as chip:
        ran, sections = chip.run(api.drawn_sets(done, 1)[0]), chip.sections
    return Measured(
        done.placement.height_bytes,
        sections.data + sections.bss,
        done.request.stack_bytes,
        ran.stack_bytes,
        max(plan.scratch_bytes for plan in done.schedule.plans),
        ran.counts,
        done.schedule.cost.cycles,
    )


def with_waits(counts: ExecutionCounts) -> int:
    """Cycles where flash makes the core wait.

    >>> with_waits(ExecutionCounts(instructions=8, cycles=10, taken_branches=1, code_bytes=32))
    22
    """
    return counts.cycles + WAITS * (-(-counts.code_bytes // LINE_BYTES) + counts.taken_branches)


def table(network: Network) -> Table:
    """Every point beside layer-by-layer execution."""
    found = Table(title=f"{network.name}: modelled cycles on {TARGET}")
    numbers = ("RAM", "stack", "scratch", "cycles", "estimate", "error", "ratio")
    for heading in (*numbers, f"{WAITS} waits", "ratio", ""):
        found.add_column(heading, justify="right")
    layers = network.layers
    for point in (*network.points, layers):
        found.add_row(
            f"{point.arena_bytes + point.reserve_bytes:,}",
            f"{point.stack_bytes:,}",
            f"{point.scratch_bytes:,}",
            f"{point.counts.cycles:,}",
            f"{point.estimated:,}",
            f"{point.error:+.1%}",
            f"{point.counts.cycles / layers.counts.cycles:.3f}",
            f"{with_waits(point.counts):,}",
            f"{with_waits(point.counts) / with_waits(layers.counts):.3f}",
            "layer by layer" if point is layers else "MISSED" * network.missed(point),
        )
    return found


if __name__ == "__main__":
    entry(main)
