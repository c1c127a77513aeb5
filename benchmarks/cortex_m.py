"""Cortex-M: modelled cycles of every layer beside CMSIS-NN, and requantisation classes.

    python -m benchmarks.cortex_m BASELINE [--target NAME] [--models FOLDER] [--network NAME ...]
                                  [--compiler zig|gcc]

BASELINE is the file of CMSIS-NN's figures (`cmsis-nn-baseline.json`), beside the shared models.
Both sides run one inference with zero wait states, timed by `simulators/cortex_m_timing.py`; on
cortex-m55, which QEMU simulates, the figures are executed instructions. penstock runs layer by
layer. Exits with 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.shared import find_shared
from penstock import api, execution
from penstock.errors import ModelError
from penstock.pipeline.compilation import Compilation, compile_request
from penstock.scheduling.options import Options

TARGET = "cortex-m4"
NETWORKS = ("vww_96_int8", "kws_ref_model", "pretrainedResnet_quant", "ad01_int8")


@dataclass(frozen=True, slots=True)
class Yardstick:
    """The baseline of a target and the limits.

    `runs`: builds of CMSIS-NN, of which the fastest counts for each network; `limits`,
    `layer_limit`: largest ratio of cycles for each network and for a layer; `closed`: best
    published MLPerf Tiny figures.
    """

    runs: Sequence[str]
    limits: Mapping[str, float]
    closed: Mapping[str, float]
    layer_limit: float = 1.0


YARDSTICKS = {
    TARGET: Yardstick(
        ("gcc-m4-O3",),
        dict(zip(NETWORKS, (0.65, 0.65, 0.65, 0.75), strict=True)),
        dict(zip(NETWORKS, (9.3e6, 4.5e6, 17.2e6, 0.36e6), strict=True)),  # on this model
    ),
    "cortex-m0plus": Yardstick(
        ("gcc-m0p-O3", "zig-m0p-O3"),
        dict.fromkeys(NETWORKS, 0.75),
        dict(zip(NETWORKS, (90.5e6, 30.4e6, 97.4e6, 2.6e6), strict=True)),  # as measured
    ),
    "cortex-m55": Yardstick(  # instructions: QEMU knows no timing; eight outputs at a time
        ("gcc-m55-O3", "zig-m55-O3"), dict.fromkeys(NETWORKS, 0.80), {}, layer_limit=1.1
    ),
}


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's kernel, with its cycles: measured, estimated, and CMSIS-NN's."""

    kernel: str
    shape: tuple[int, ...]
    macs: int
    cycles: int
    estimated: int
    theirs: int

    @property
    def ratio(self) -> float:
        return self.cycles / self.theirs


@dataclass(frozen=True, slots=True)
class Network:
    """The layers of a network, its totals, and its channels by requantisation class.

    `totals`: CMSIS-NN's totals by build; `run`: the fastest build.
    """

    name: str
    layers: tuple[Layer, ...]
    classes: Mapping[str, int]
    code_bytes: int
    stack_bytes: int
    cycles: int
    estimated: int
    totals: Mapping[str, int]
    run: str
    limit: float
    layer_limit: float
    closed: float | None

    @property
    def ratio(self) -> float:
        return self.cycles / self.totals[self.run]


def main(arguments: Sequence[str]) -> int:
    """Prints a table for each network and one of their totals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cortex_m", description=__doc__)
    parser.add_argument("baseline", type=Path, help="figures of CMSIS-NN")
    parser.add_argument("--target", default=TARGET, choices=tuple(YARDSTICKS))
    parser.add_argument("--models", type=Path, help="folder of models")
    parser.add_argument("--network", action="append", help="only this network; repeatable")
    parser.add_argument("--compiler", choices=("zig", "gcc"), default="zig")
    wanted = parser.parse_args(arguments)
    baseline = read_baseline(wanted.baseline)
    shared = find_shared(wanted.models)
    models = shared.named(wanted.network or list(NETWORKS))
    networks = [
        measure(str(path), path.stem, baseline, wanted.target, wanted.compiler) for path in models
    ]
    out = console()
    for network in networks:
        out.print(_layers(network, wanted.target))
    out.print(_sums(networks))
    return int(any(missed(network) for network in networks))


Figures = Mapping[str, Mapping[str, Mapping[str, Any]]]


def read_baseline(path: Path) -> Figures:
    """CMSIS-NN's figures by build and network.  Raises ModelError for another file."""
    try:
        return json.loads(path.read_text())["runs"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            "bench-005",
            f"the figures of CMSIS-NN cannot be read: {error}",
            where=str(path),
            help="name cmsis-nn-baseline.json, which lies among the shared facts",
        ) from error


def measure(
    model: str, name: str, baseline: Figures, target: str, compiler: str = "zig"
) -> Network:
    """Compiles a network, runs one inference and pairs its layers with CMSIS-NN's."""
    yardstick = YARDSTICKS[target]
    totals = {run: cost(baseline[run][name]["total"]) for run in yardstick.runs}
    run = min(totals, key=lambda run: totals[run])
    theirs = baseline[run][name]
    options = Options(accumulate=False)  # CMSIS-NN's layers are whole
    done = compile_request(api.request(model, target, options=options))
    with execution.firmware(done, compiler) as chip:
        ran, sections = chip.run(api.drawn_sets(done, 1)[0]), chip.sections
    others = [x for x in theirs["layers"] if x["op"] != "RESHAPE"]
    layers = tuple(
        Layer(
            part.kernel.name,
            part.output.type.shape,
            int(other.get("macs") or 0),
            step.cycles,
            part.kernel.work_cycles or 0,
            cost(other),
        )
        for step, part, other in zip(ran.steps, done.schedule.steps, others, strict=True)
    )
    return Network(
        name,
        layers,
        classes(done),
        sections.code,
        ran.stack_bytes,
        ran.counts.cycles,
        done.schedule.cost.cycles,
        totals,
        run,
        yardstick.limits.get(name, 1.0),
        yardstick.layer_limit,
        yardstick.closed.get(name),
    )


def cost(figures: Mapping[str, Any]) -> int:
    """Cycles of CMSIS-NN; instructions if there is no cycle model."""
    return round(figures.get("cycles") or figures["instr"])


def classes(done: Compilation) -> Mapping[str, int]:
    """Number of channels by requantisation class, over all layers with weights."""
    found = Counter(letter for part in done.schedule.steps for letter in part.kernel.classes)
    return dict(sorted(found.items()))


def missed(network: Network) -> bool:
    """Whether a network or one of its layers exceeds its limit."""
    return network.ratio > network.limit or any(
        layer.ratio > network.layer_limit for layer in network.layers
    )


def _layers(network: Network, target: str) -> Table:
    table = Table(title=f"{network.name}: modelled cycles on {target}, CMSIS-NN as {network.run}")
    for heading in ("kernel", "output"):
        table.add_column(heading, no_wrap=True)
    for heading in ("MACs", "cycles", "a MAC", "estimate", "CMSIS-NN", "ratio"):
        table.add_column(heading, justify="right")
    for layer in network.layers:
        table.add_row(
            layer.kernel,
            "x".join(map(str, layer.shape)),
            f"{layer.macs:,}" if layer.macs else "-",
            f"{layer.cycles:,}",
            f"{layer.cycles / layer.macs:.2f}" if layer.macs else "-",
            f"{layer.estimated / layer.cycles - 1:+.1%}" if layer.estimated else "-",
            f"{layer.theirs:,}",
            f"{layer.ratio:.3f}" + ("  slower" if layer.ratio > 1.0 else ""),
        )
    return table


def _sums(networks: Sequence[Network]) -> Table:
    table = Table(title="networks")
    table.add_column("network", no_wrap=True)
    headings = ("cycles", "estimate", "CMSIS-NN", "ratio", "limit", "closed", "to it")
    for heading in (*headings, "code bytes", "stack bytes", "channels by class"):
        table.add_column(heading, justify="right")
    for n in networks:
        table.add_row(
            n.name,
            f"{n.cycles:,}",
            f"{n.estimated / n.cycles - 1:+.1%}",
            ", ".join(f"{run} {total:,}" for run, total in n.totals.items()),
            ", ".join(f"{n.cycles / total:.3f}" for total in n.totals.values()),
            f"{n.limit:.2f}",
            f"{n.closed:,.0f}" if n.closed else "-",
            f"{n.cycles / n.closed:.2f}" if n.closed else "-",
            f"{n.code_bytes:,}",
            str(n.stack_bytes),
            ", ".join(f"{letter} {count}" for letter, count in n.classes.items()),
        )
    return table


if __name__ == "__main__":
    entry(main)
