"""RAM of nine MobileNets of ST's model zoo, beside the published figures of X-CUBE-AI, and of the
larger image classification network of MLPerf Tiny (IC02).

Networks of the same shapes come from the built-in zoo, with random weights.  RAM is the arena with
the input in memory.  X-CUBE-AI's cycles were measured on a Cortex-M7; penstock's are estimated with
the cycle model of the Cortex-M4, which issues one instruction per cycle instead of two.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.markdown_table import markdown_tables, number
from benchmarks.planned import Planned, plan
from benchmarks.shared import DEFAULT_MODELS, find_shared
from penstock.scheduling.options import DEFAULTS, Options

FACTS = "anchors-2026-11.md"
TARGET = "cortex-m7"
SHARE = 0.25
"""Largest ratio to X-CUBE-AI's activations, where the input alone is not larger."""
NETWORKS = {
    "MobileNetV1 0.25 96 (flowers)": "mobilenet_v1:alpha=0.25,resolution=96,classes=5",
    "MobileNetV1 0.25 96x96x1": (
        "mobilenet_v1:alpha=0.25,resolution=96,classes=2,input_channels=1"
    ),
    "MobileNetV1 0.25 224": "mobilenet_v1:alpha=0.25",
    "MobileNetV1 0.5 224": "mobilenet_v1:alpha=0.5",
    "MobileNetV1 1.0 224": "mobilenet_v1",
    "MobileNetV2 0.35 128": "mobilenet_v2:alpha=0.35,resolution=128",
    "MobileNetV2 0.35 224": "mobilenet_v2:alpha=0.35",
    "MobileNetV2 1.0 224": "mobilenet_v2",
    "MobileNetV2 1.4 224": "mobilenet_v2:alpha=1.4",
}
"""The facts' names of ST's networks, and networks of the zoo with the same shapes."""
IC02, IC02_LIMIT_BYTES = "resnet8:width=40", 22_000
"""MLPerf Tiny's second image classification network, and the most RAM that it may need."""


@dataclass(frozen=True, slots=True)
class Published:
    """X-CUBE-AI's figures for a network on a Cortex-M7.

    activations_bytes: its activations, input and output included.
    megacycles: cycles of a run, in millions.
    """

    activations_bytes: int
    megacycles: float


def published(facts: Path) -> dict[str, Published]:
    """Return the figures of X-CUBE-AI by the facts' names of the networks."""
    text = (facts / FACTS).read_text()
    found: dict[str, Published] = {}
    for table in markdown_tables(text):
        sizes, cycles = table.column("= bytes"), table.column("M cycles")
        if sizes is None or cycles is None:
            continue
        for row in table.rows:
            size = number(row[sizes])
            if row[0] in NETWORKS and size is not None:
                found[row[0]] = Published(size, float(row[cycles].split()[0]))
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the tables; return 1 if a network needs more RAM than its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.st_zoo", description=__doc__)
    parser.add_argument("--models", type=Path, default=DEFAULT_MODELS, metavar="FOLDER")
    parser.add_argument("--network", help="part of a network's name; default: all")
    given = parser.parse_args(arguments)
    theirs = published(find_shared(given.models).facts)
    text = (given.network or "").lower()
    wanted = [name for name in NETWORKS if text in name.lower()]
    fine = compared({name: theirs[name] for name in wanted}) if wanted else True
    if text in "ic02":
        fine &= _ic02()
    return 0 if fine else 1


def compared(theirs: dict[str, Published]) -> bool:
    """Print RAM and cycles beside X-CUBE-AI's; return whether every network keeps its limit."""
    table = Table(title="RAM in bytes, input included, without recomputation; millions of cycles")
    headings = ("input", "X-CUBE-AI", "penstock", "ratio", "limit", "M cycles", "at least RAM")
    table.add_column("network", no_wrap=True)
    for heading in (*headings, "fastest"):
        table.add_column(heading, justify="right")
    fine = True
    for name, figures in theirs.items():
        planned = _planned(NETWORKS[name], Options(max_recompute=1.0))
        least, fastest = planned.points[0], planned.points[-1]
        size = sum(value.type.size_bytes for value in planned.parts.graph.inputs)
        ratio = least.height_bytes / figures.activations_bytes
        applies = size <= SHARE * figures.activations_bytes
        fine &= ratio <= SHARE or not applies
        table.add_row(
            name,
            *map(shown, (size, figures.activations_bytes, least.height_bytes)),
            f"{ratio:.3f}",
            f"{SHARE:.2f}" if applies else "input",
            f"{figures.megacycles:.1f}",
            *(f"{point.schedule.cost.cycles / 1e6:.1f}" for point in (least, fastest)),
        )
    console().print(table)
    return fine


def _ic02() -> bool:
    """Print the frontier of IC02 beside its fastest point, which runs layer by layer."""
    planned = _planned(IC02)
    fastest = planned.points[-1].schedule.cost.cycles
    table = Table(title="MLPerf Tiny IC02: RAM in bytes, input included")
    for heading in ("RAM", "F", "M cycles", "ratio to the fastest"):
        table.add_column(heading, justify="right")
    for point in planned.points:
        cycles = point.schedule.cost.cycles
        figures = f"{planned.ratio(point):.3f}", f"{cycles / 1e6:.2f}", f"{cycles / fastest:.3f}"
        table.add_row(shown(point.height_bytes), *figures)
    console().print(table)
    return planned.least_bytes <= IC02_LIMIT_BYTES


def _planned(network: str, options: Options = DEFAULTS) -> Planned:
    print(f"planning zoo:{network}", file=sys.stderr)
    return plan(f"zoo:{network}", TARGET, options=options)


if __name__ == "__main__":
    entry(main)
