"""NvdlaNetworks: what NVDLA runs of networks.

    python -m benchmarks.nvdla_networks [FOLDER] [--network NAME] [--config NAME]

For each network and configuration: nodes and multiply-accumulates (MACs) that NVDLA runs,
as a share of all, the share of the MACs that run twice, because their layers take two passes,
the cycles before scheduling and those of them that lie beside NVDLA, and how many of the sums of
two tensors NVDLA runs. Below, the reasons why nodes run on the processor instead, with the number
of these nodes and their share of the MACs. Networks of up to MOST_MACS MACs also run on the
functional model, whose elements, cycles and bytes must be those of the network and of its schedule;
others have a dash. FOLDER holds models of others; without it, networks of the zoo are planned.
Exits with 1 if a run differs, or if less than LEAST_PERCENT % of the MACs of a network run on
NVDLA.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.compiled_partition import disagreements, engine_cycles, main_bytes
from benchmarks.entry import console, entry, shown
from benchmarks.graph_groups import short_name
from penstock import api
from penstock.backends.offload import offload
from penstock.ir.composite import Composite
from penstock.ir.graph import Graph, Node, whole_work
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.graphs import read_request, simplify
from penstock.pipeline.request import Request
from penstock.uma import Offloaded
from penstock_nvdla.dataflow import cycles
from penstock_nvdla.kernels import tasks
from penstock_nvdla.operators import SUMS

CONFIGURATIONS = ("small", "large")
NETWORKS = ("zoo:resnet8", "zoo:mobilenet_v1:alpha=0.25,resolution=96", "zoo:vgg16")
SMALL_VGG16 = "zoo:vgg16:alpha=0.25,resolution=32"
MODELS = ("pretrainedResnet_quant.tflite", "vww_96_int8.tflite", "mobilenetv2_160_035.tflite")
MOST_MACS = 10**8
"""Of the networks that run on the functional model."""
LEAST_PERCENT = 85
LAYOUTS = ("PackChannels", "PackView", "UnpackChannels", "Slice", "Pad", "Reshape")
"""Operators that change layouts or shapes."""


@dataclass(frozen=True, slots=True)
class Share:
    """What NVDLA runs of a network.

    nodes, macs: numbers of the whole network; nodes that compute.
    own_nodes, own_macs, twice_macs: those that NVDLA runs, and runs in two passes.
    own_cycles, beside_cycles: those of NVDLA and of the processor, before scheduling.
    sums, own_sums: numbers of sums and differences of two tensors, and of those that NVDLA runs.
    left: by operator and reason, the nodes and MACs that the processor runs.
    cycles: stated cycles of NVDLA; None if the network was planned only.
    faults: how a run on the functional model disagrees.
    """

    name: str
    nodes: int
    macs: int
    own_nodes: int
    own_macs: int
    twice_macs: int
    own_cycles: int
    beside_cycles: int
    sums: int
    own_sums: int
    left: tuple[tuple[str, str, int, int], ...]
    cycles: int | None
    faults: tuple[str, ...]

    @property
    def percent(self) -> float:
        """The share of MACs that NVDLA runs."""
        return 100 * self.own_macs / self.macs


def main(arguments: Sequence[str]) -> int:
    """Prints the tables; 1 if a run differs or NVDLA runs too little."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nvdla_networks", description=__doc__
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument(
        "--network", action="append", metavar="NAME", help="this one only, or zoo:.."
    )
    parser.add_argument("--config", action="append", metavar="NAME", help="this one only")
    wanted = parser.parse_args(arguments)
    found: list[Share] = []
    known = {name: model for model in models(wanted.folder) for name in (short_name(model), model)}
    every = dict.fromkeys(known.get(name, name) for name in wanted.network or known)
    for model in every:
        for config in wanted.config or CONFIGURATIONS:
            print(f"planning {short_name(model)} for {config}", file=sys.stderr)
            found.append(share(model, config))
    console().print(table(found))
    console().print(reasons(found))
    for one in found:
        for fault in one.faults:
            print(f"{one.name}: {fault}")
    failed = any(one.faults or one.percent < LEAST_PERCENT for one in found)
    return 1 if failed else 0


def models(folder: Path | None) -> Sequence[str]:
    """What is planned: networks of the zoo, or models of a folder and VGG16."""
    if folder is None:
        return (*NETWORKS, SMALL_VGG16)
    return (*(str(folder / name) for name in MODELS), "zoo:vgg16", SMALL_VGG16)


def share(model: str, config: str) -> Share:
    """What NVDLA runs of a network. Raises PenstockError."""
    request = api.request(model, "host", accelerators=(f"nvdla:config={config}",), optimize="speed")
    graph = simplify(read_request(request))
    found = offload(graph, request.accelerators, request.target)
    own = [node for node in found.graph.nodes if isinstance(node.op, Composite)]
    twice = sum(whole_work(node).macs for node in own if takes_two_passes(node, request))
    left = [item for item in found.cpu_fallbacks if item.node.kind not in LAYOUTS]
    counts, macs = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for item in left:
        counts[item.node.kind, item.reason] += 1
        macs[item.node.kind, item.reason] += macs_of(item.node)
    by_reason = tuple((*key, count, macs[key]) for key, count in counts.most_common())
    total = macs_in(graph)
    ran, faults = run(request) if total <= MOST_MACS else (None, ())
    return Share(
        f"{short_name(model)}, {config}",
        sum(node.kind not in LAYOUTS for node in graph.nodes),
        total,
        len(own),
        total - sum(macs.values()),  # without those on zeros that folded columns add
        twice,
        sum(own_cycles(node, request) for node in own),
        sum(item.cycles for item in found.cpu_fallbacks),
        sum(adds_tensors(node) for node in graph.nodes),
        sum(adds_tensors(Offloaded(node, request.accelerators[0].target).main) for node in own),
        by_reason,
        ran,
        faults,
    )


def own_cycles(node: Node, request: Request) -> int:
    """Cycles of a composite that computes its whole output."""
    shape = node.output.type.shape
    rows = shape[1] if len(shape) == 4 else 1
    return round(cycles(Offloaded(node, request.accelerators[0].target), rows).cycles)


def macs_in(graph: Graph) -> int:
    """Multiply-accumulates of all nodes."""
    return sum(map(macs_of, graph.nodes))


def macs_of(node: Node) -> int:
    """Multiply-accumulates of a node."""
    return whole_work(node).macs


def adds_tensors(node: Node) -> bool:
    """Whether a node is the sum or difference of two tensors of which none is constant."""
    return node.kind in SUMS and all(value.data is None for value in node.inputs)


def takes_two_passes(node: Node, request: Request) -> bool:
    """Whether a composite runs a layer twice."""
    every = tasks(Offloaded(node, request.accelerators[0].target))
    return any(len(one.task.passes) > 1 for one in every)


def run(request: Request) -> tuple[int, tuple[str, ...]]:
    """Stated cycles of NVDLA, and how a run on the functional model disagrees."""
    done = compile_request(request)
    stated = engine_cycles(done.schedule)
    return stated, tuple(disagreements(done, stated, main_bytes(done.schedule)))


def table(found: Sequence[Share]) -> Table:
    """A row for each network and configuration."""
    columns = (
        *("network", "nodes", "on NVDLA", "million MACs", "on NVDLA", "in two passes"),
        *("million cycles", "beside"),
        *("sums", "on NVDLA", "NVDLA cycles", "functional model"),
    )
    made = Table(*(columns[:1]), title="networks on NVDLA")
    for column in columns[1:]:
        made.add_column(column, justify="right")
    for one in found:
        state = "-" if one.cycles is None else "differs" if one.faults else "equal"
        made.add_row(
            one.name,
            str(one.nodes),
            str(one.own_nodes),
            f"{one.macs / 1e6:,.1f}",
            f"{one.percent:.1f} %",
            f"{100 * one.twice_macs / one.macs:.1f} %",
            f"{(one.own_cycles + one.beside_cycles) / 1e6:,.2f}",
            f"{one.beside_cycles / 1e6:,.2f}",
            str(one.sums),
            str(one.own_sums),
            shown(one.cycles),
            state,
        )
    return made


def reasons(found: Sequence[Share]) -> Table:
    """A row for each reason why nodes run on the processor."""
    made = Table("network", "operator", "nodes", "MACs", "reason", title="Nodes on the processor")
    for row in _reason_rows(found):
        made.add_row(*row)
    return made


def _reason_rows(found: Sequence[Share]) -> Iterator[tuple[str, ...]]:
    for one in found:
        for kind, reason, count, macs in one.left:
            yield one.name, kind, str(count), f"{100 * macs / one.macs:.2f} %", reason


if __name__ == "__main__":
    entry(main)
