"""Engine figures: fits the linear model of an engine to simulated layers and cascades.

    python -m benchmarks.engine_figures [--models FOLDER | --zoo]

The model serves engines that have no figures of kernels (`benchmarks.kernel_figures`).

    cycles of a layer = macs * cycles_per_mac + elements * cycles_per_element
                        + loops * cycles_per_loop + calls * cycles_per_call

What a call takes is told by points of one frontier, which do the same work in more or fewer calls:
it is the median, over neighbouring points with cascades, of the cycles that they differ by for each
call.  The rest is fitted to whole layers: the non-negative figures of least squares, where the
cycles of a layer are measured by those of the mean layer of its network; so a layer of a small
network says as much as one of a large one.  Of the weightings that were tried, its totals are
nearest: relative errors a layer, or shares of a network, pull the figures towards layers that are
cheap.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from benchmarks.entry import console, entry, first_line
from benchmarks.figures import MAX_SIMULATED_MACS, ZOO
from benchmarks.points import spread
from benchmarks.shared import find_shared
from penstock import api, execution
from penstock.errors import PenstockError, UsageError
from penstock.ir.tensor import Region
from penstock.pipeline.compilation import Compilation, compile_request, with_point
from penstock.pipeline.placing import PlacedPoint

TARGET = "cortex-m4-portable"
FIGURES = ("cycles_per_mac", "cycles_per_element", "cycles_per_loop")
CASCADES = 5
"""Number of points with cascades that are simulated for each network."""
MAX_CASCADE_MACS = 100_000_000
"""Limit of work; above it, only the point without cascades is simulated."""
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The layers of a network, each whole.

    `work`: shape (layers, 3); simulated cycles: shape (layers,); the present estimate of their
    total; (calls, simulated cycles) of points with cascades, in ascending order of calls.
    """

    model: str
    work: Matrix
    cycles: Matrix
    estimated: int
    cascades: tuple[tuple[int, int], ...]


def main(arguments: Sequence[str]) -> int:
    """Prints the fit, for the target's file, and the error of every network."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine_figures", description=__doc__
    )
    parser.add_argument("--models", type=Path, help="folder of models")
    parser.add_argument("--zoo", action="store_true", help="fit to the zoo, without shared models")
    wanted = parser.parse_args(arguments)
    models = ZOO if wanted.zoo else map(str, find_shared(wanted.models).networks())
    samples = [sample for sample in map(_sample, models) if sample is not None]
    if not samples:
        raise UsageError("bench-004", "there is no network to fit to", help="name --models FOLDER")
    call = cycles_of_a_call([s.cascades for s in samples])
    fit = fitted(
        np.concatenate([s.work / s.cycles.mean() for s in samples]),
        np.concatenate([(s.cycles - call) / s.cycles.mean() for s in samples]),
    )
    out = console()
    out.print(_table(samples, fit, call))
    for name, value in zip(FIGURES, fit, strict=True):
        out.print(f"{name} = {value:.1f}")
    out.print(f"cycles_per_call = {call:.1f}")
    return 0


def cycles_of_a_call(networks: Sequence[Sequence[tuple[int, int]]]) -> float:
    """The median of what a call more takes, over neighbouring (calls, cycles) of each network.

    >>> cycles_of_a_call([[(10, 5_000), (20, 6_000), (30, 7_200)], [(5, 100), (6, 180)]])
    100.0
    """
    slopes = [
        (more[1] - fewer[1]) / (more[0] - fewer[0])
        for points in networks
        for fewer, more in pairwise(points)
        if more[0] > fewer[0]
    ]
    return max(0.0, statistics.median(slopes)) if slopes else 0.0


def fitted(work: Matrix, cycles: Matrix) -> Matrix:
    """The non-negative x that makes |work x - cycles| least.  With so few figures, every choice
    of those that are not zero can be tried.

    >>> work = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> fitted(work, np.array([3.0, 1.0, -4.0])).round(9).tolist()
    [2.0, 0.0]
    """
    count = work.shape[1]
    best, least = np.zeros(count), float(np.sum(cycles**2))
    for size in range(1, count + 1):
        for chosen in map(list, combinations(range(count), size)):
            x = np.zeros(count)
            x[chosen] = np.linalg.lstsq(work[:, chosen], cycles, rcond=None)[0]
            error = float(np.sum((work @ x - cycles) ** 2))
            if x.min() >= 0.0 and error < least:
                best, least = x, error
    return best


def _sample(model: str) -> Sample | None:
    """The layers of a network; None if it is unsupported or too large to simulate."""
    try:
        done = compile_request(api.request(model, TARGET))
        if done.schedule.cost.macs > MAX_SIMULATED_MACS:
            return None
        print(f"simulating {done.model.name}", file=sys.stderr)
        ran = _run(done)
        cascades = tuple(sorted(_cascades(done)))
    except PenstockError as error:
        print(f"not taken: {model}: {first_line(error)}", file=sys.stderr)
        return None
    rows: list[tuple[int, int, int]] = []
    for part in done.schedule.steps:
        node = part.nodes[-1]
        work = node.op.work(node.site, Region.whole(part.output.type.shape))
        rows.append((work.macs, work.elements, work.loops))
    cycles = np.array([step.cycles for step in ran.steps], float)
    estimated = done.schedule.cost.cycles
    return Sample(done.model.name, np.array(rows, float), cycles, estimated, cascades)


def _cascades(done: Compilation) -> Iterator[tuple[int, int]]:
    """Calls and simulated cycles of some points with cascades."""
    if done.schedule.cost.macs > MAX_CASCADE_MACS:
        return
    points = [point for point in done.points if _cut(point)]
    for number in sorted(spread(len(points), CASCADES)):
        calls = points[number].schedule.cost.calls
        yield calls, _run(with_point(done, points[number])).counts.cycles


def _cut(point: PlacedPoint) -> bool:
    """Whether a point has cascades."""
    return any(plan.stripe is not None for plan in point.schedule.plans)


def _run(compilation: Compilation) -> execution.CoreRun:
    with execution.firmware(compilation) as chip:
        return chip.run(api.drawn_sets(compilation, 1)[0])


def _table(samples: Sequence[Sample], fit: Matrix, call: float) -> Table:
    table = Table(title=f"simulated and estimated cycles on {TARGET}")
    table.add_column("model", no_wrap=True)
    for heading in ("layers", "simulated", "now", "error", "by the fit", "error", "worst layer"):
        table.add_column(heading, justify="right")
    table.add_column("cycles a call more", justify="right")
    for s in samples:
        total, by_layer = s.cycles.sum(), s.work @ fit + call
        errors = (by_layer - s.cycles) / s.cycles
        worst = errors[np.argmax(np.abs(by_layer - s.cycles))]
        table.add_row(
            s.model,
            str(len(s.cycles)),
            f"{total:,.0f}",
            f"{s.estimated:,}",
            f"{s.estimated / total - 1:+.1%}",
            f"{by_layer.sum():,.0f}",
            f"{by_layer.sum() / total - 1:+.1%}",
            f"{worst:+.0%}",
            f"{cycles_of_a_call([s.cascades]):.0f}" if len(s.cascades) > 1 else "-",
        )
    return table


if __name__ == "__main__":
    entry(main)
