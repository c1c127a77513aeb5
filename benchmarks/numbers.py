"""Numbers: RAM, flash, work and time of every model, beside those of other compilers.

    python -m benchmarks.numbers [--models FOLDER] [--network NAME] [--verify] [--workers N]
                                 [-o FILE --date DATE]

FILE contains measured figures only; figures of others are listed with their source.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.climb import Climb, climb
from benchmarks.entry import console, entry, first_line, shown
from benchmarks.figures import TARGET, ZOO, Figures, measure
from benchmarks.graph_groups import short_name
from benchmarks.peers import BOUNDS, CMSIS_NN, CORTEX_M, Peers, read_peers
from benchmarks.shared import REPOSITORY, Shared, find_shared
from penstock import api
from penstock.errors import PenstockError
from penstock.reports.codec import Json
from penstock.toolchains.command import Command
from penstock.workers import executor_of, mapped

SOURCES = {
    "peak_live_bytes, in file order": "shared/models/README.md",
    "row_bound_bytes, vela_bytes, tvm_bytes": f"shared/facts/{BOUNDS}",
    "tflm_arena_bytes": f"shared/facts/{CORTEX_M}, 2.5",
    "cmsis_nn_*": f"shared/facts/{CMSIS_NN}",
}
NOBODY = Peers()


@dataclass(frozen=True, slots=True)
class Row:
    """A model with its figures."""

    figures: Figures
    peers: Peers
    climbs: tuple[Climb, ...] = ()

    def as_json(self) -> Json:
        """The row without unknown figures."""
        found: dict[str, Json] = dataclasses.asdict(self.figures)
        found["peers"] = {
            name: value
            for name, value in dataclasses.asdict(self.peers).items()
            if value is not None
        }
        found["verified"] = {
            c.archive: [dataclasses.asdict(rung) for rung in c.rungs] for c in self.climbs
        }
        return found


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A model that penstock does not support, and the first line of the error."""

    model: str
    reason: str


def main(arguments: Sequence[str]) -> int:
    """Measures, prints, and writes the file if requested; returns 1 if a rung has mismatches."""
    parser = _parser()
    wanted = parser.parse_args(arguments)
    if wanted.output is not None and wanted.network is not None:
        parser.error("-o needs all networks; leave --network out")
    shared, out = find_shared(wanted.models), console()
    measure_one = partial(_measure_one, shared, read_peers(shared), wanted.verify)
    with executor_of(wanted.workers) as executor:
        networks = _networks(shared, wanted.network)
        found = tuple(mapped(measure_one, networks, executor))
    rows = [row for row in found if isinstance(row, Row)]
    unsupported = {row.model: row.reason for row in found if isinstance(row, Unsupported)}
    out.print(_memory_table(rows))
    out.print(_time_table(rows))
    _print_rest(out, rows, unsupported)
    if wanted.output is not None:
        whole = _numbers(rows, unsupported, wanted.date)
        wanted.output.write_text(json.dumps(whole, indent=1) + "\n")
    return 1 if any(c.mismatches for row in rows for c in row.climbs) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numbers", description=__doc__)
    parser.add_argument("--models", type=Path, help="folder of models, beside it the facts")
    parser.add_argument("--network", metavar="NAME", help="only networks whose name contains NAME")
    parser.add_argument("--verify", action="store_true", help="climb the ladder with goldens, too")
    parser.add_argument("--workers", type=int, default=1, help="processes that measure")
    parser.add_argument("-o", dest="output", type=Path, help="file to write, as numbers.json")
    parser.add_argument("--date", default="unknown", help="what the file gives as its date")
    return parser


def _networks(shared: Shared, name: str | None) -> Sequence[str]:
    """The measured networks; those of the shared folder by path."""
    every = (*map(str, shared.networks()), *ZOO)
    return every if name is None else [m for m in every if name in short_name(m)]


def _measure_one(
    shared: Shared, peers: Mapping[str, Peers], verify: bool, model: str
) -> Row | Unsupported:
    print(f"measuring {model}", file=sys.stderr)
    try:
        figures = measure(model)
    except PenstockError as error:
        return Unsupported(short_name(model), first_line(error))
    archives = () if model.startswith("zoo:") or not verify else shared.goldens(Path(model))
    climbs = tuple(climb(api.request(model, TARGET), archive) for archive in archives)
    return Row(figures, peers.get(figures.model, NOBODY), climbs)


def _memory_table(rows: Sequence[Row]) -> Table:
    table = Table(title="RAM and flash, bytes (RAM total = arena + stack reserve)")
    table.add_column("model", no_wrap=True)
    ours = ("total", "arena", "io", "scratch", "weights", "code")
    others = ("peak live, file order", "row bound", "TFLM arena", "Vela", "TVM")
    for heading in (*ours, *others, "order / partition / placement"):
        table.add_column(heading, justify="right")
    for row in rows:
        f, p = row.figures, row.peers
        ram, flash, o = f.ram_bytes, f.flash_bytes, f.optimality
        found = (ram.total, ram.arena, ram.io, ram.scratch, flash.weights, flash.code)
        theirs = (p.peak_live_bytes, p.row_bound_bytes, p.tflm_arena_bytes)
        numbers = (*found, *theirs, p.vela_bytes, p.tvm_bytes)
        certificates = " / ".join(map(_certificate, (o.order, o.partition, o.placement)))
        table.add_row(f.model, *map(shown, numbers), certificates)
    return table


def _time_table(rows: Sequence[Row]) -> Table:
    table = Table(title=f"work and time on a simulated {TARGET}; CMSIS-NN on the same core")
    table.add_column("model", no_wrap=True)
    for heading in ("MACs", "cycles estimated", "simulated", "a MAC", "instructions", "stack"):
        table.add_column(heading, justify="right")
    for heading in ("CMSIS-NN gcc, cycles", "instructions", "zig, cycles", "ours / gcc"):
        table.add_column(heading, justify="right")
    for row in rows:
        f, p = row.figures, row.peers
        gcc, zig = p.cmsis_nn_gcc_cycles, p.cmsis_nn_zig_cycles
        table.add_row(
            f.model,
            *map(shown, (f.macs.executed, f.cycles_estimated, f.cycles_simulated)),
            _ratio(f.cycles_simulated, f.macs.executed),
            *map(shown, (f.instructions, f.stack_bytes_measured)),
            *map(shown, (gcc, p.cmsis_nn_gcc_instructions, zig)),
            _ratio(f.cycles_simulated, gcc),
        )
    return table


def _print_rest(out: Console, rows: Sequence[Row], unsupported: Mapping[str, str]) -> None:
    for row in rows:
        for c in row.climbs:
            steps = ", ".join(f"{r.step} {r.elements:,}: {r.mismatches}" for r in c.rungs)
            out.print(f"{c.archive}: elements and mismatches: {steps} {c.difference}")
    for model, line in unsupported.items():
        out.print(f"not taken: {model}: {line}", markup=False)


def _numbers(rows: Sequence[Row], unsupported: Mapping[str, str], date: str) -> Json:
    return {
        "date": date,
        "commit": _commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors, "
        f"Python {platform.python_version()}",
        "target": TARGET,
        "sources_of_peers": SOURCES,
        "models": [row.as_json() for row in rows],
        "unsupported": dict(unsupported),
    }


def _commit() -> str:
    """The measured commit, and whether the sources differ from it."""
    git = ("git", "-C", str(REPOSITORY))
    head = Command((*git, "rev-parse", "--short=12", "HEAD"), "git").run().decode().strip()
    status = ("status", "--porcelain", "--untracked-files=no", "--", "src")
    changed = Command((*git, *status), "git").run()
    return f"{head}, changed" if changed else head


def _certificate(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.0%}"


def _ratio(a: int | None, b: int | None) -> str:
    return f"{a / b:.2f}" if a and b else "-"


if __name__ == "__main__":
    entry(main)
