"""Cortex-M: modelled cycles of every layer beside CMSIS-NN's, and the classes of requantisation.

    python -m benchmarks.cortex_m BASELINE [--models FOLDER] [--network NAME ...]

BASELINE is the file of CMSIS-NN's figures (`cmsis-nn-baseline.json`), beside the shared models.
Both sides: one inference, zero wait states, the cycle model of `simulators/cortex_m_timing.py`.
Ours are of the schedule that runs layer by layer; exits with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.shared import find_shared
from penstock import api, execution
from penstock.backends.cortex_m.dsp import classes_of
from penstock.errors import ModelError
from penstock.pipeline import Compilation, compile_request
from penstock.scheduling.options import Options

TARGET = "cortex-m4"
RUN = "gcc-m4-O3"
LIMITS = {
    "vww_96_int8": 0.65,
    "kws_ref_model": 0.65,
    "pretrainedResnet_quant": 0.65,
    "ad01_int8": 0.75,
}
"""Greatest share of CMSIS-NN's cycles."""
CLOSED = {
    "vww_96_int8": 9.3e6,
    "kws_ref_model": 4.5e6,
    "pretrainedResnet_quant": 17.2e6,
    "ad01_int8": 0.36e6,
}
"""The best published MLPerf Tiny figures of closed engines, brought to this model's cycles."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's kernel, and cycles: ours, estimated by us, and CMSIS-NN's."""

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
    """The layers of a network, its sums, and its channels by class of requantisation."""

    name: str
    layers: tuple[Layer, ...]
    classes: Mapping[str, int]
    code_bytes: int
    stack_bytes: int
    cycles: int
    estimated: int
    theirs: int

    @property
    def ratio(self) -> float:
        return self.cycles / self.theirs


def main(arguments: Sequence[str]) -> int:
    """Prints a table for each network and one of their sums."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cortex_m", description=__doc__)
    parser.add_argument("baseline", type=Path, help="figures of CMSIS-NN")
    parser.add_argument("--models", type=Path, help="folder of models")
    parser.add_argument("--network", action="append", help="only this network; repeatable")
    wanted = parser.parse_args(arguments)
    baseline = read_baseline(wanted.baseline)
    shared = find_shared(wanted.models)
    models = shared.named(wanted.network or list(baseline))
    networks = [measure(str(path), path.stem, baseline[path.stem]) for path in models]
    out = console()
    for network in networks:
        out.print(_layers(network))
    out.print(_sums(networks))
    return int(any(missed(network) for network in networks))


def read_baseline(path: Path) -> Mapping[str, Mapping[str, object]]:
    """CMSIS-NN's figures by network.  Raises ModelError where the file is not such a file."""
    try:
        return json.loads(path.read_text())["runs"][RUN]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            "bench-005",
            f"the figures of CMSIS-NN cannot be read: {error}",
            where=str(path),
            help="name cmsis-nn-baseline.json, which lies among the shared facts",
        ) from error


def measure(model: str, name: str, theirs: Mapping[str, object]) -> Network:
    """Compiles a network, runs one inference, and puts its layers beside theirs."""
    options = Options(accumulate=False)  # CMSIS-NN's layers are whole
    done = compile_request(api.request(model, TARGET, options=options))
    with execution.firmware(done) as chip:
        ran, sections = chip.run(api.drawn_sets(done, 1)[0]), chip.sections
    others = [x for x in theirs["layers"] if x["op"] != "RESHAPE"]  # pyright: ignore
    layers = tuple(
        Layer(
            part.kernel.name,
            part.output.type.shape,
            int(other.get("macs") or 0),
            step.cycles,
            part.kernel.work_cycles or 0,
            round(other["cycles"]),
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
        round(theirs["total"]["cycles"]),  # pyright: ignore
    )


def classes(done: Compilation) -> Mapping[str, int]:
    """Channels by class of requantisation, of all layers with weights."""
    nodes = done.graph.nodes
    found = Counter(c.value for node in nodes for c in classes_of(node.op, node.site))
    return dict(sorted(found.items()))


def missed(network: Network) -> bool:
    """Whether a network or one of its layers is above its limit."""
    limit = LIMITS.get(network.name, 1.0)
    return network.ratio > limit or any(layer.ratio > 1.0 for layer in network.layers)


def _layers(network: Network) -> Table:
    table = Table(title=f"{network.name}: modelled cycles on {TARGET}, CMSIS-NN as {RUN}")
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
        closed = CLOSED.get(n.name)
        table.add_row(
            n.name,
            f"{n.cycles:,}",
            f"{n.estimated / n.cycles - 1:+.1%}",
            f"{n.theirs:,}",
            f"{n.ratio:.3f}",
            f"{LIMITS.get(n.name, 1.0):.2f}",
            f"{closed:,.0f}" if closed else "-",
            f"{n.cycles / closed:.2f}" if closed else "-",
            f"{n.code_bytes:,}",
            str(n.stack_bytes),
            ", ".join(f"{letter} {count}" for letter, count in n.classes.items()),
        )
    return table


if __name__ == "__main__":
    entry(main)
