"""Ethos-U: memory and cycles of networks beside Arm's Vela, run here, constants in flash or DRAM.

    python -m benchmarks.ethos_u FOLDER [--network NAME ...] [--accelerator NAME ...]

FOLDER holds models.  Each network on each accelerator as Vela makes it for the least memory
(`Size`) and for speed (`Performance`), and the fastest point of our frontier in at most 0.75 of
the SRAM of the one, or the SRAM of the other.  A line holds where that takes no more cycles than
Vela's.  Exits with 1 where a line does not hold.

Cycles of both are those of the streams as they stand (`ethos_u_time.py`): decoded, and timed by one
clock that knows operations, copies, waits, and ports that they share.  Ours are the sum over all
calls, and what the processor runs at its own cycles.  A line fails, too, where the point's estimate
is not that figure, to the cycle.  Vela's own figures are of whole operations, so they flatter its
cascades; whether a line holds by them stands last, and does not count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.ethos_u_time import program_cycles, stream_cycles
from benchmarks.frontier import fastest
from benchmarks.planned import Planned, plan
from benchmarks.shared import find_shared
from benchmarks.vela import VelaReport, vela_report
from penstock.accelerators.ethos_u.configurations import CONFIGURATIONS, Configuration
from penstock.backends.accelerator import Accelerator
from penstock.pipeline import Point, lower_point

NETWORKS = (
    "kws_ref_model",
    "vww_96_int8",
    "pretrainedResnet_quant",
    "person_detect",
    "mobilenetv2_160_035",
    "rand_mobilenet_v1_1.0_224_int8",
)
ACCELERATORS = {
    "ethos_u55:macs=128": "ethos-u55-128",
    "ethos_u55:macs=256": "ethos-u55-256",
    "ethos_u65_256": "ethos-u65-256",
}
"""What Vela calls each."""
SHARES = {"Size": 0.75, "Performance": 1.0}
"""Of the SRAM that Vela takes when it optimises for that, what we may take."""
HEADER = ("network", "accelerator", "Vela", "its SRAM", "cycles", "its own", "our SRAM", "cycles",
          "ratio", "by its own", "processor", "our least", "holds", "by its own")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Beside:
    """A compilation of Vela, the cycles of its stream, and our fastest point in as much SRAM as it
    may take, with the cycles of its streams and of the processor, and the latter alone."""

    vela: VelaReport
    cycles: int
    ours: Point | None
    taken: int
    processor: int

    @property
    def as_estimated(self) -> bool:
        """Whether our streams take what the compiler says."""
        return self.ours is None or self.taken == self.ours.schedule.cost.cycles

    def ratio(self, cycles: int) -> float:
        """Our cycles by these; infinite without a point."""
        return inf if self.ours is None else self.taken / cycles

    @property
    def ratios(self) -> tuple[float, float]:
        """Our cycles by Vela's, those by stripes and its own."""
        return self.ratio(self.cycles), self.ratio(self.vela.cycles)

    @property
    def cells(self) -> tuple[str, ...]:
        """Of the table: from Vela's SRAM to the processor's cycles."""
        ours = (None, None)
        if self.ours is not None:
            ours = (self.ours.height_bytes, self.taken)
        return (
            *map(shown, (self.vela.sram_bytes, self.cycles, self.vela.cycles, *ours)),
            *(f"{ratio:.3f}" for ratio in self.ratios),
            shown(self.processor),
        )


def main(arguments: Sequence[str]) -> int:
    """Prints a table, a line each network and accelerator; 1 where a line does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ethos_u", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--accelerator", action="append", choices=ACCELERATORS, metavar="NAME")
    parser.add_argument("--target", default="cortex-m55", help="the processor beside the NPU")
    wanted = parser.parse_args(arguments)
    table = Table(title="Vela and penstock: bytes of SRAM, cycles by stripes, Vela's own cycles")
    for heading in HEADER:
        left = heading in HEADER[:3]
        table.add_column(heading, justify="left" if left else "right", no_wrap=left)
    missed = 0
    for model in find_shared(wanted.folder).named(wanted.network or list(NETWORKS)):
        for accelerator, name in ACCELERATORS.items():
            if accelerator not in (wanted.accelerator or ACCELERATORS):
                continue
            print(f"{model.stem} on {name}", file=sys.stderr)
            planned = plan(str(model), wanted.target, accelerators=(accelerator,))
            for optimise, share in SHARES.items():
                found = beside(planned, model, name, optimise, share)
                missed += found.ratio(found.cycles) > 1 or not found.as_estimated
                holds = ["yes" if ratio <= 1 else "NO" for ratio in found.ratios]
                holds[0] = holds[0] if found.as_estimated else "NOT AS ESTIMATED"
                least = shown(planned.least_bytes)
                table.add_row(model.stem, name, optimise, *found.cells, least, *holds)
    console().print(table)
    return 1 if missed else 0


def beside(planned: Planned, model: Path, name: str, optimise: str, share: float) -> Beside:
    """Our fastest point in a share of Vela's SRAM beside what Vela makes of a model.

    Raises ToolError."""
    vela = vela_report(model, name, ("--optimise", optimise))
    stream = vela.stream
    cycles = stream_cycles(stream.words, CONFIGURATIONS[name], stream.constants[:1])
    ours = fastest(planned.points, int(share * vela.sram_bytes))
    if ours is None:
        return Beside(vela, cycles, None, 0, 0)
    processor = processor_cycles(ours)
    taken = processor + point_cycles(ours, planned.request.accelerators, CONFIGURATIONS[name])
    return Beside(vela, cycles, ours, taken, processor)


def point_cycles(point: Point, accelerators: Sequence[Accelerator], chip: Configuration) -> int:
    """Cycles of the streams that a point becomes."""
    return program_cycles(lower_point(point, accelerators), chip)


def processor_cycles(point: Point) -> int:
    """Cycles of what the NPU does not run."""
    parts, beside = point.schedule.parts.parts, point.schedule.parts.accelerators
    return sum(
        cost.cycles
        for each in point.schedule.plans
        for k, cost in zip(each.parts, each.costs, strict=True)
        if parts[k].engine not in beside
    )


if __name__ == "__main__":
    entry(main)
