"""Frontier: the least RAM of every network beside its row bound and beside others.

    python -m benchmarks.frontier [FOLDER]

FOLDER holds models, and beside it the facts: row bounds and figures of others; without it the
networks of the zoo are planned.  Exits with 1 where a network needs more than 1.10 times its row
bound and 1 KiB, with its input in memory or streamed, or where a milestone is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, first_line, shown
from benchmarks.figures import ZOO
from benchmarks.peers import BOUNDS, Peers, read_peers
from benchmarks.planned import Planned, plan
from benchmarks.shared import DEFAULT_MODELS, Shared, find_shared
from penstock.errors import PenstockError
from penstock.pipeline.placed_point import PlacedPoint
from penstock.scheduling.options import Options

ABOVE = 1.10
SLACK_BYTES = 1024
MILESTONES: Mapping[str, tuple[int, ...]] = {
    "rand_mobilenet_v1_1.0_224_int8": (300_000, 250_000),
    "zoo:mobilenet_v1": (300_000, 250_000),
}
"""Arenas in which a network must run at its own multiply-accumulates."""
SAME_SHAPES: Mapping[str, str] = {
    "zoo:mobilenet_v1": "rand_mobilenet_v1_1.0_224_int8",
    "zoo:resnet8": "pretrainedResnet_quant",
}
"""Networks of the zoo with the tensors of a model that the facts know."""
NOBODY = Peers()
ONCE = Options(max_recompute=1.0)
"""Options under which every element is computed once, as row bounds assume."""
SOURCE = (
    f"total - stack, in bytes; row bound and figures of others: facts/{BOUNDS}; Vela and TVM are "
    "for an NPU.\nF: multiply-accumulates executed by those of the model."
)


@dataclass(frozen=True, slots=True)
class Row:
    """A network's frontier, with the input in memory and streamed, and what others need."""

    model: str
    planned: Planned
    streamed: Planned
    peers: Peers

    @property
    def holds(self) -> bool:
        """Whether the least figures are near enough to their bounds, and milestones reached."""
        least = self.planned.least_bytes
        return (
            near(least, self.peers.row_bound_bytes)
            and near(self.streamed.least_bytes, self.peers.row_bound_streamed_bytes)
            and all(least <= milestone for milestone in MILESTONES.get(self.model, ()))
            and all(self.planned.ratio(point) == 1.0 for point in self.planned.points)
        )


def main(arguments: Sequence[str]) -> int:
    """Prints the tables; 1 where a bound or milestone is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frontier", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    rows = tuple(_rows(parser.parse_args(arguments).folder))
    out = console()
    out.print(_table(rows))
    for row in rows:
        if row.model in MILESTONES:
            out.print(_milestones(row))
    out.print(SOURCE)
    return 0 if all(row.holds for row in rows) else 1


def near(least_bytes: int, bound_bytes: int | None) -> bool:
    """Whether a figure is at most 1.10 times its bound and 1 KiB; without a bound, it is.

    >>> near(12_000, 10_000), near(12_025, 10_000), near(12_025, None)
    (True, False, True)
    """
    return bound_bytes is None or least_bytes <= ABOVE * bound_bytes + SLACK_BYTES


def fastest(points: Sequence[PlacedPoint], limit_bytes: int) -> PlacedPoint | None:
    """The fastest point whose arena has at most so many bytes; points have the least first."""
    fitting = [point for point in points if point.height_bytes <= limit_bytes]
    return fitting[-1] if fitting else None


def _rows(folder: Path | None) -> Iterator[Row]:
    """Every network of the folder that has a row bound; without a folder, those of the zoo."""
    peers = read_peers(Shared(folder or DEFAULT_MODELS))
    models = ZOO if folder is None else tuple(map(str, find_shared(folder).networks()))
    for model in models:
        name = model if model in ZOO else Path(model).stem
        known = peers.get(SAME_SHAPES.get(name, name), NOBODY)
        if model not in ZOO and known.row_bound_bytes is None:
            continue
        print(f"planning {name}", file=sys.stderr)
        try:
            once, streamed = plan(model, options=ONCE), plan(model, stream_input=True, options=ONCE)
            yield Row(name, once, streamed, known)
        except PenstockError as error:
            print(f"not taken: {name}: {first_line(error)}", file=sys.stderr)


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="least arena of each network, bytes")
    table.add_column("model", no_wrap=True)
    ours = ("parts", "points", "most", "least", "row bound", "ratio")
    streamed = ("streamed", "row bound", "ratio")
    for heading in (*ours, *streamed, "held", "TFLM arena", "Vela", "TVM", "search s", "place s"):
        table.add_column(heading, justify="right")
    for row in rows:
        p, s, others = row.planned, row.streamed, row.peers
        most = p.points[-1].height_bytes
        theirs = (others.tflm_arena_bytes, others.vela_bytes, others.tvm_bytes)
        table.add_row(
            row.model,
            *map(shown, (len(p.parts.parts), len(p.points), most)),
            *_against(p.least_bytes, others.row_bound_bytes),
            *_against(s.least_bytes, others.row_bound_streamed_bytes),
            "yes" if row.holds else "NO",
            *map(shown, theirs),
            f"{p.search_seconds:.2f}",
            f"{p.place_seconds:.2f}",
        )
    return table


def _against(least_bytes: int, bound_bytes: int | None) -> tuple[str, str, str]:
    """A figure, its bound, and the one by the other."""
    ratio = "-" if bound_bytes is None else f"{least_bytes / bound_bytes:.3f}"
    return shown(least_bytes), shown(bound_bytes), ratio


def _milestones(row: Row) -> Table:
    """The point of most memory, the fastest that reaches each milestone, and that of least."""
    points = row.planned.points
    most, least = points[-1].height_bytes, row.planned.least_bytes
    table = Table(title=f"{row.model}: the fastest points of at most so many bytes")
    for heading in ("at most", "arena", "F", "cycles estimated", "calls", "cascades"):
        table.add_column(heading, justify="right")
    for limit in (most, *MILESTONES[row.model], least):
        point = fastest(points, limit)
        if point is None:
            table.add_row(shown(limit), "NONE")
            continue
        cost = point.schedule.cost
        table.add_row(
            shown(limit),
            shown(point.height_bytes),
            f"{row.planned.ratio(point):.2f}",
            *map(shown, (cost.cycles, cost.calls)),
            shown(sum(plan.stripe is not None for plan in point.schedule.plans)),
        )
    return table


if __name__ == "__main__":
    entry(main)
