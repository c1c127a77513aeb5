"""Slowdown: what it costs on a Cortex-M4 to run in less memory.

    python -m benchmarks.slowdown [--models FOLDER] [--network NAME ...]

For every point of the frontier: RAM with the stack's reserve, the stack measured, the scratch that
lies inside the arena; counted and estimated cycles; and both beside the counted cycles of the same
network layer by layer.  Exits with 1 where a point takes more than LIMIT times those, where the
estimate is wrong by more than WRONG, or where linked objects take other RAM than reported.

`waits`: the same with WAITS wait states of flash, by a model without cache and prefetch: flash is
read in lines of LINE_BYTES; a line costs the wait states when execution runs into it, and when a
taken branch leads to it.  Constants are left out: every schedule reads the same weights as often,
so that the ratio is nearer to 1 with them.
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
from penstock.pipeline import Compilation, compile_request, with_point
from penstock.scheduling.options import Options
from penstock.simulators.counts import Counts

NETWORKS = ("vww_96_int8", "kws_ref_model", "pretrainedResnet_quant", "ad01_int8")
LIMIT = 1.15
WRONG = 0.10
WAITS = 4
LINE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Measured:
    """One schedule on the simulated core; `linked_bytes`: RAM of the linked objects."""

    arena_bytes: int
    linked_bytes: int
    reserve_bytes: int
    stack_bytes: int
    scratch_bytes: int
    counts: Counts
    estimated: int

    @property
    def error(self) -> float:
        return self.estimated / self.counts.cycles - 1

    @property
    def fits(self) -> bool:
        """Whether RAM is what is reported, to the byte."""
        return self.arena_bytes == self.linked_bytes and self.stack_bytes <= self.reserve_bytes


@dataclass(frozen=True, slots=True)
class Network:
    """The points of a network, least memory first, and its layers one by one."""

    name: str
    layers: Measured
    points: tuple[Measured, ...]

    def missed(self, point: Measured) -> bool:
        """Whether a point is above a limit."""
        too_slow = point.counts.cycles > LIMIT * self.layers.counts.cycles
        return too_slow or abs(point.error) > WRONG or not point.fits


def main(arguments: Sequence[str]) -> int:
    """Prints a table for each network; 1 where a limit is missed."""
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


def with_waits(counts: Counts) -> int:
    """Cycles where flash makes the core wait.

    >>> with_waits(Counts(instructions=8, cycles=10, taken_branches=1, code_bytes=32))
    22
    """
    return counts.cycles + WAITS * (-(-counts.code_bytes // LINE_BYTES) + counts.taken_branches)


def table(network: Network) -> Table:
    """Every point, beside the network layer by layer."""
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
