"""Ethos-U: which networks of one operator run on the NPU, beside Arm's Vela.

    python -m benchmarks.ethos_u_operators [FOLDER] [--network NAME ...] [--accelerator NAME]

FOLDER holds models; those of one operator are in its folder `ops`. A row states for each network
which operators penstock leaves to the processor and why, and how many Vela leaves. Exits with 1 if
more than 12 networks run on Vela's NPU as a whole, and on ours only in part.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, first_line
from benchmarks.ethos_u import ACCELERATORS
from benchmarks.shared import find_shared
from penstock import api
from penstock.errors import PenstockError
from penstock.ir.composite import Composite
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import read, simplify

MOST_LEFT = 12
"""The most networks that may run as a whole on Vela's NPU only."""


@dataclass(frozen=True, slots=True)
class Offloading:
    """How many operators of a network run on an NPU, and how many are left to the processor.

    left: None if the compiler refuses the network.
    reasons: why operators are left."""

    offloaded: int
    left: int | None
    reasons: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the NPU runs everything that is computed."""
        return self.left == 0

    @property
    def text(self) -> str:
        """The cell of the table: "whole", "part" or "none"."""
        if self.left is None:
            return "refused"
        return "whole" if self.whole else "part" if self.offloaded else "none"


def main(arguments: Sequence[str]) -> int:
    """Prints a table with a row for each network; returns 1 if too many are left."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ethos_u_operators",
                                     description=__doc__)  # fmt: skip
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    parser.add_argument("--accelerator", choices=ACCELERATORS, default="ethos_u55:macs=128")
    wanted = parser.parse_args(arguments)
    shared = find_shared(wanted.folder)
    models = shared.named(wanted.network) if wanted.network else shared.operators()
    table = Table(title=f"Networks on {wanted.accelerator}, by penstock and by Vela")
    for heading in ("network", "ours", "Vela's", "left to the processor by penstock"):
        table.add_column(heading, no_wrap=heading == "network")
    left = 0
    for model in models:
        ours, vela = by_penstock(model, wanted.accelerator), by_vela(model, wanted.accelerator)
        left += vela.whole and not ours.whole
        table.add_row(model.stem, ours.text, vela.text, "; ".join(ours.reasons))
    console().print(table)
    print(f"{left} of {len(models)} networks run whole on Vela's NPU and not on ours")
    return 1 if left > MOST_LEFT else 0


def by_penstock(model: Path, accelerator: str) -> Offloading:
    """Returns which operators of a model penstock runs on the NPU."""
    try:
        request = api.request(str(model), "cortex-m55", accelerators=(accelerator,))
        graph = simplify(read(request.model, request.reading), request.rounding, request.io)
        parts = assign_engines(graph, request)
    except PenstockError as error:
        return Offloading(0, None, (first_line(error),))
    reasons = {f"{one.node.kind}: {one.reason}": None for one in parts.cpu_fallbacks}
    offloaded = sum(isinstance(node.op, Composite) for node in parts.graph.nodes)
    return Offloading(offloaded, len(parts.cpu_fallbacks), tuple(reasons))


def by_vela(model: Path, accelerator: str) -> Offloading:
    """Returns how many operators of a model Vela runs on the NPU."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ethosu.vela", "--output-dir", folder, str(model)]
        command += ["--accelerator-config", ACCELERATORS[accelerator]]
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    counts = dict(re.findall(r"(CPU|NPU) operators = (\d+)", printed))
    if not counts:
        return Offloading(0, None)
    return Offloading(int(counts["NPU"]), int(counts["CPU"]))


if __name__ == "__main__":
    entry(main)
