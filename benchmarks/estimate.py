"""Estimate: validates the cost model on layers and networks that it was not fitted to.

    python -m benchmarks.estimate [--target NAME ...] [--seeds COUNT]
    python -m benchmarks.estimate FOLDER --points [--target NAME ...] [--network NAME ...]

Without `--points`, random layers of every kind run whole on the simulated core; prints estimated /
simulated cycles by kernel. With it, every point of the frontier of the fifteen networks of FOLDER
(the shared models) and of eight random networks runs; prints the worst points and layers of each.

Exits with 1 if the estimate of a point is off by more than WRONG, or that of a layer with more than
SHARE of the cycles by more than WRONG_LAYER. `benchmarks.kernel_figures` fits the model to layers
of other seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks import random_layers
from benchmarks.entry import console, entry, first_line
from benchmarks.figures import TARGET
from benchmarks.measured import WHOLE, Measured, compiled, layers, run
from benchmarks.shared import find_shared
from penstock import api
from penstock.errors import PenstockError
from penstock.pipeline.compilation import Compilation, compile_request, with_point

WRONG, WRONG_LAYER, SHARE = 0.10, 0.25, 0.01
FIRST_LAYERS, FIRST_NETWORK = 1_000, 9_001
"""Seeds; those below are for fitting."""
NETWORKS = 8
ZOO = "zoo:"
FIFTEEN = (
    "vww_96_int8",
    "kws_ref_model",
    "pretrainedResnet_quant",
    "ad01_int8",
    "person_detect",
    "micro_speech_quantized",
    "hello_world_int8",
    "mobilenetv2_160_035",
    "mbnet96_0.25_q",
    "ssd_slim_120x160x1",
    "rand_mobilenet_v1_0.25_128_int8",
    "rand_mobilenet_v2_0.35_144_int8",
    "rand_mobilenet_v1_1.0_224_int8",
    "pretrainedResnet_large_int8",
    "str_ww_ref_model",
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A run: arena bytes, estimated and simulated cycles, layers."""

    ram_bytes: int
    estimated: int
    simulated: int
    layers: tuple[Measured, ...]

    @property
    def error(self) -> float:
        return self.estimated / self.simulated - 1

    @property
    def weighty(self) -> tuple[Measured, ...]:
        """Layers with more than SHARE of the estimated or simulated cycles."""
        return tuple(
            one
            for one in self.layers
            if one.simulated > SHARE * self.simulated or one.estimated > SHARE * self.estimated
        )

    @property
    def missed(self) -> tuple[Measured, ...]:
        """Layers whose estimate exceeds the limit."""
        return tuple(one for one in self.weighty if abs(one.error) > WRONG_LAYER)


def main(arguments: Sequence[str]) -> int:
    """Prints tables; returns 1 if an estimate is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimate", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of models, for --points")
    parser.add_argument("--points", action="store_true", help="every point of whole networks")
    parser.add_argument("--network", action="append", help="only this one, or zoo:NAME; repeatable")
    parser.add_argument("--target", action="append", help="not cortex-m4; repeatable")
    parser.add_argument("--seeds", type=int, default=8, help="of random layers")
    wanted = parser.parse_args(arguments)
    wrong = 0
    for target in wanted.target or [TARGET]:
        if wanted.points:
            for done in networks(wanted.folder, target, wanted.network or []):
                wrong += judge_points(done)
        else:
            wrong += judge_layers(target, wanted.seeds)
    console().print(f"{wrong} estimates are off by more than the limit")
    return int(wrong > 0)


def judge_layers(target: str, seeds: int) -> int:
    """Prints a table of random layers by kernel; returns the number of wrong estimates."""
    found: dict[str, list[Measured]] = defaultdict(list)
    wrong: list[Measured] = []
    for mixture, seed in product(random_layers.MIXTURES, range(FIRST_LAYERS, FIRST_LAYERS + seeds)):
        print(f"{target}: {mixture} mixture {seed}", file=sys.stderr)
        try:
            done = compiled(random_layers.MIXTURES[mixture](seed), target, WHOLE)
            judged = judge(done)
        except PenstockError as error:
            print(f"{mixture} mixture {seed} is left out: {first_line(error)}", file=sys.stderr)
            continue
        for one in judged.layers:
            found[one.kernel.name].append(one)
        wrong += judged.missed
    out = console()
    out.print(_layer_table(target, found))
    for one in wrong:
        out.print(_layer_line(one))
    return len(wrong)


def networks(folder: Path | None, target: str, names: Sequence[str]) -> Iterator[Compilation]:
    """The fifteen networks and random ones, compiled; or the named ones, including zoo networks."""
    drawn = {f"network_{seed}": seed for seed in range(FIRST_NETWORK, FIRST_NETWORK + NETWORKS)}
    wanted = names or (*drawn, *FIFTEEN)
    shared = [name for name in wanted if name not in drawn and not name.startswith(ZOO)]
    for name in wanted:
        if name in drawn:
            yield compiled(random_layers.network(drawn[name]), target)
        elif name not in shared:
            yield compile_request(api.request(name, target))
    if shared:
        for path in find_shared(folder).named(shared):
            yield compile_request(api.request(str(path), target))


def judge_points(done: Compilation) -> int:
    """Prints a network's worst points and layers; returns the number of wrong ones."""
    judged: list[Judged] = []
    for number, point in enumerate(done.points):
        print(f"{done.model.name}: point {number + 1} of {len(done.points)}", file=sys.stderr)
        judged.append(judge(with_point(done, point)))
    worst = max(judged, key=lambda one: abs(one.error))
    wrong = [one for one in judged if abs(one.error) > WRONG]
    missed = [layer for one in judged for layer in one.missed]
    out = console()
    out.print(
        f"{done.model.name} on {done.request.target.name}: {len(judged)} points, "
        f"{min(one.error for one in judged):+.1%} to {max(one.error for one in judged):+.1%}; "
        f"worst: {worst.ram_bytes:,} bytes, estimated {worst.estimated:,}, "
        f"simulated {worst.simulated:,}{' WRONG' * (len(wrong) > 0)}"
    )
    for name in dict.fromkeys(layer.name for layer in missed):
        of = [layer for layer in missed if layer.name == name]
        out.print(_layer_line(max(of, key=lambda layer: abs(layer.error))))
    return len(wrong) + len(missed)


def judge(done: Compilation) -> Judged:
    """Runs one inference of a compilation's schedule."""
    ran = run(done)
    some = tuple(layers(done, ran))
    cost = done.schedule.cost
    return Judged(done.placement.height_bytes, cost.cycles, ran.counts.cycles, some)


def _layer_line(one: Measured) -> str:
    shapes = " ".join(str(list(x.shape)) for x in one.site.inputs)
    return (
        f"    {one.name}: {one.kernel.name}, {shapes} -> {list(one.site.output.shape)}, "
        f"{one.calls} calls, estimated {one.estimated:,}, simulated {one.simulated:,}, "
        f"{one.error:+.1%}"
    )


def _layer_table(target: str, found: dict[str, list[Measured]]) -> Table:
    table = Table(title=f"estimated / simulated on {target}, of random layers")
    table.add_column("kernel", no_wrap=True)
    for heading in ("layers", "least", "10 %", "median", "90 %", "most"):
        table.add_column(heading, justify="right")
    for kernel, some in sorted(found.items()):
        quantiles = np.quantile([one.error + 1 for one in some], (0, 0.1, 0.5, 0.9, 1))
        table.add_row(kernel, str(len(some)), *(f"{q:.2f}" for q in quantiles))
    return table


if __name__ == "__main__":
    entry(main)
