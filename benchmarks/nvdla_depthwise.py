"""NvdlaDepthwise: depthwise convolutions on NVDLA without penstock's extension, or on a Cortex-M4.

    python -m benchmarks.nvdla_depthwise [FOLDER] [--network NAME]

Without the extension, a depthwise convolution runs as group convolutions, whose weights are zero
except on the diagonal.  For each one: its shape, the bytes of its weights, and those of the group
convolutions; the modelled cycles on NVDLA `small` and `large`, with latency; the estimated cycles
of the Cortex-M4's kernel, and of unpacking its input and packing its output, which the processor
does for NVDLA's neighbouring layers.  Each engine counts cycles of its own clock; column `ratio` is
the processor's cycles, without those of packing, divided by NVDLA's.  FOLDER holds models of
others; without it, networks of the zoo are planned.  Exits with 1 if the processor takes fewer
cycles for a layer than NVDLA.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry, shown
from benchmarks.graph_groups import short_name
from penstock import api
from penstock.backends.offload import offload
from penstock.backends.processor_parts import Processor, single_node_part
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.target import Target
from penstock.ir.composite import Composite
from penstock.ir.graph import Node
from penstock.ops.channel_packs import PackChannels, UnpackChannels
from penstock.pipeline.graphs import read_request, simplify
from penstock.uma import Offloaded
from penstock_nvdla.configurations import configuration
from penstock_nvdla.dataflow import cycles
from penstock_nvdla.unextended_kernels import plain_tables

CONFIGURATIONS = ("small", "large")
TARGET = "cortex-m4"
NETWORKS = (
    "zoo:mobilenet_v1:alpha=0.25,resolution=96",
    "zoo:mobilenet_v2:alpha=0.35,resolution=96",
)
MODELS = ("vww_96_int8.tflite", "mobilenetv2_160_035.tflite")


@dataclass(frozen=True, slots=True)
class Layer:
    """A depthwise convolution on a configuration of NVDLA, and on the processor."""

    network: str
    shape: str
    own_bytes: int
    group_bytes: int
    cycles: int
    processor_cycles: int
    packing_cycles: int

    @property
    def ratio(self) -> float:
        """How many cycles the processor takes for each of NVDLA's, without those of packing."""
        return self.processor_cycles / self.cycles


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 1 if the processor takes fewer cycles for a layer."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nvdla_depthwise", description=__doc__
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="this one only")
    wanted = parser.parse_args(arguments)
    models = NETWORKS if wanted.folder is None else [str(wanted.folder / name) for name in MODELS]
    found = [
        layer
        for model in models
        if not wanted.network or short_name(model) in wanted.network
        for config in CONFIGURATIONS
        for layer in depthwise_layers(model, config)
    ]
    console().print(table(found))
    slower = sum(layer.ratio < 1 for layer in found)
    print(f"the processor takes fewer cycles for {slower} of {len(found)} layers")
    return 1 if slower or not found else 0


def depthwise_layers(model: str, config: str) -> Iterator[Layer]:
    """The depthwise convolutions of a network that NVDLA runs.  Raises PenstockError."""
    request = api.request(
        model, TARGET, accelerators=(f"nvdla:config={config},extension=False",), optimize="speed"
    )
    found = offload(simplify(read_request(request)), request.accelerators, request.target)
    (accelerator,) = request.accelerators
    atom_bytes = configuration(config).memory_atom_bytes
    for node in (node for node in found.graph.nodes if isinstance(node.op, Composite)):
        offloaded = Offloaded(node, accelerator.target)
        main = offloaded.main
        if main.kind != "DepthwiseConv2D":
            continue
        x, y = main.inputs[0].type.shape, main.output.type.shape
        yield Layer(
            f"{short_name(model)}, {config}",
            f"{x[1]} x {x[2]} x {x[3]} to {y[1]} x {y[2]}",
            offloaded.constant(1).nbytes,
            plain_tables(offloaded)["weights"].nbytes,
            round(cycles(offloaded, y[1]).cycles),
            processor_cycles(main, request.target),
            packing_cycles(x, y, atom_bytes, request.target),
        )


def processor_cycles(node: Node, target: Target) -> int:
    """The estimated cycles of a node on the processor."""
    processor = target.engines[0]
    return Processor(processor).work_cycles(single_node_part(node, processor))


def packing_cycles(x: tuple[int, ...], y: tuple[int, ...], atom_bytes: int, target: Target) -> int:
    """The estimated cycles of unpacking a tensor of shape `x` and packing one of shape `y`."""
    net, packs = GraphBuilder("layouts"), -(-x[3] // atom_bytes)
    whole = (*y[:3], -(-y[3] // atom_bytes) * atom_bytes)
    packed = (1, x[1], packs * x[2], atom_bytes)
    unpacked = net.apply(UnpackChannels(packs), net.input(packed, name="x"), name="unpacked")
    graph = net.build(unpacked, net.apply(PackChannels(atom_bytes), net.input(whole, name="y")))
    return sum(processor_cycles(node, target) for node in graph.nodes)


def table(found: Sequence[Layer]) -> Table:
    """A row for each layer."""
    made = Table(title="depthwise convolutions as group convolutions on NVDLA, and on a Cortex-M4")
    made.add_column("network")
    made.add_column("layer")
    for heading in ("weight bytes", "in groups", "NVDLA cycles", "Cortex-M4 cycles", "ratio",
                    "packing cycles"):  # fmt: skip
        made.add_column(heading, justify="right")
    for k, one in enumerate(found):
        figures = (one.own_bytes, one.group_bytes, one.cycles, one.processor_cycles)
        made.add_row(
            one.network,
            one.shape,
            *map(shown, figures),
            f"{one.ratio:.1f}",
            shown(one.packing_cycles),
            end_section=k + 1 < len(found) and found[k + 1].network != one.network,
        )
    return made


if __name__ == "__main__":
    entry(main)
