"""Ethos-U: memory and cycles of networks beside Arm's Vela, with constants in flash or DRAM.

    python -m benchmarks.ethos_u FOLDER [--network NAME ...] [--accelerator NAME ...]

FOLDER holds models: all .tflite files, or those that are named. Vela compiles each network for each
accelerator, for the least memory (`Size`) and for speed (`Performance`). The table compares it with
the fastest point of our frontier within 0.75 of the SRAM of `Size`, within the SRAM of `Size`, and
within the SRAM of `Performance`. A row holds if our point takes no more cycles than Vela's. Below
the table are the geometric means of the ratios, and the networks that Vela or penstock refuses.
Exits with 1 if a row does not hold.

The cycles of both are those of the command streams (`ethos_u_time.py`): decoded, and timed by one
model of operations, copies, waits and shared ports. Ours are the sum over all calls, plus the
cycles of the processor. A row also fails if the point's estimate differs from that figure. Vela's
own figures are of whole operations and favour its cascades; the last column compares with them and
does not count.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import geometric_mean

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.ethos_u_time import program_cycles, stream_cycles
from benchmarks.planned import Planned, fastest, plan
from benchmarks.shared import find_shared
from benchmarks.vela import VelaReport, vela_report
from penstock.backends.accelerator import Accelerator
from penstock.errors import PenstockError
from penstock.pipeline.emission import lower_point
from penstock.pipeline.placing import PlacedPoint
from penstock.reports.steps import costed_steps
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule
from penstock_ethos_u.configurations import CONFIGURATIONS, EthosUConfiguration

NETWORKS = (
    "kws_ref_model",
    "vww_96_int8",
    "pretrainedResnet_quant",
    "person_detect",
    "mobilenetv2_160_035",
    "rand_mobilenet_v1_1.0_224_int8",
)
ACCELERATORS = {
    "ethos_u55:macs=64": "ethos-u55-64",
    "ethos_u55:macs=128": "ethos-u55-128",
    "ethos_u55:macs=256": "ethos-u55-256",
    "ethos_u65_256": "ethos-u65-256",
    "ethos_u65:macs=512": "ethos-u65-512",
    "ethos_u85:macs=256": "ethos-u85-256",
    "ethos_u85:macs=1024": "ethos-u85-1024",
}
"""Vela's name of each accelerator."""
BOUNDS = (("Size", 0.75), ("Size", 1.0), ("Performance", 1.0))
"""Vela's optimisation goals, each with our share of its SRAM."""
HEADER = ("network", "accelerator", "Vela", "its SRAM", "cycles", "its own", "our SRAM", "cycles",
          "ratio", "by its own", "processor", "our least", "holds", "by its own")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Beside:
    """A compilation by Vela beside our fastest point within its share of SRAM.

    It has the cycles of Vela's stream, of our streams with the processor, and of the processor
    alone.
    """

    vela: VelaReport
    cycles: int
    ours: PlacedPoint | None
    taken: int
    processor: int

    @property
    def as_estimated(self) -> bool:
        """Whether the cycles of our streams equal the compiler's estimate."""
        return self.ours is None or self.taken == self.ours.schedule.cost.cycles

    def ratio(self, cycles: int) -> float:
        """Our cycles relative to these; infinite without a point."""
        return inf if self.ours is None else self.taken / cycles

    @property
    def ratios(self) -> tuple[float, float]:
        """Our cycles relative to Vela's: by the streams, and by its own figures."""
        return self.ratio(self.cycles), self.ratio(self.vela.cycles)

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of the table, from Vela's SRAM to the processor's cycles."""
        ours = (None, None)
        if self.ours is not None:
            ours = (self.ours.height_bytes, self.taken)
        return (
            *map(shown, (self.vela.sram_bytes, self.cycles, self.vela.cycles, *ours)),
            *(f"{ratio:.3f}" for ratio in self.ratios),
            shown(self.processor),
        )


def main(arguments: Sequence[str]) -> int:
    """Prints a table with a row for each network and accelerator; returns 1 if a row does not
    hold."""
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
    missed, refused = 0, list[str]()
    ratios: dict[str, list[float]] = {}
    shared = find_shared(wanted.folder)
    for model in shared.named(wanted.network) if wanted.network else shared.networks():
        for accelerator, name in ACCELERATORS.items():
            if accelerator not in (wanted.accelerator or ACCELERATORS):
                continue
            print(f"{model.stem} on {name}", file=sys.stderr, flush=True)
            try:
                planned = plan(str(model), wanted.target, accelerators=(accelerator,))
                rows = [
                    (bound(goal, share), beside(planned, model, name, goal, share))
                    for goal, share in BOUNDS
                ]
            except PenstockError as error:
                refused.append(f"{model.stem} on {name}: {error.what}")
                continue
            for label, found in rows:
                ratio = found.ratio(found.cycles)
                missed += ratio > 1 or not found.as_estimated
                if ratio < inf:
                    ratios.setdefault(label, []).append(ratio)
                holds = ["yes" if ratio <= 1 else "NO" for ratio in found.ratios]
                holds[0] = holds[0] if found.as_estimated else "NOT AS ESTIMATED"
                least = shown(planned.least_bytes)
                table.add_row(model.stem, name, label, *found.cells, least, *holds)
    console().print(table)
    for label, some in ratios.items():
        print(f"geometric mean of {len(some)} ratios, {label}: {geometric_mean(some):.3f}")
    print(*(f"refused: {line}" for line in refused), sep="\n")
    return 1 if missed else 0


def bound(goal: str, share: float) -> str:
    """The text of a bound of memory."""
    return goal if share == 1.0 else f"{share} x {goal}"


def beside(planned: Planned, model: Path, name: str, optimise: str, share: float) -> Beside:
    """Compares our fastest point within a share of Vela's SRAM with Vela's stream.

    Raises ToolError.
    """
    vela = vela_report(model, name, ("--optimise", optimise))
    stream = vela.stream
    cycles = stream_cycles(stream.words, CONFIGURATIONS[name], stream.constants[:1])
    ours = fastest(planned.points, int(share * vela.sram_bytes))
    if ours is None:
        return Beside(vela, cycles, None, 0, 0)
    processor = processor_cycles(ours)
    taken = processor + point_cycles(ours, planned.request.accelerators, CONFIGURATIONS[name])
    return Beside(vela, cycles, ours, taken, processor)


def point_cycles(
    point: PlacedPoint, accelerators: Sequence[Accelerator], chip: EthosUConfiguration
) -> int:
    """Cycles of the streams of a point."""
    return program_cycles(lower_point(point, accelerators), chip)


def processor_cycles(point: PlacedPoint) -> int:
    """Cycles of the parts that the NPU does not run, also inside bands of columns."""
    schedule, beside = point.schedule, point.schedule.parts.accelerators
    return sum(
        step.cost.cycles
        for cascade in ExpandedSchedule(schedule).cascades
        for step in costed_steps(schedule, cascade)
        if step.part.engine not in beside
    )


if __name__ == "__main__":
    entry(main)
