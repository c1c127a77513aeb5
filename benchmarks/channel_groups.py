"""Channel groups: what computing hidden channels in groups saves.

    python -m benchmarks.channel_groups [FOLDER] [--network NAME ...] [--target NAME] [--limit F ..]

For MobileNetV2 (of the zoo and of FOLDER) and for single blocks, with the input in memory and
streamed, and for recomputation up to each F: the least live bytes without and with groups, the
saving, estimated cycles at the least points relative to the fastest one, the number of grouped
blocks and of groups at the least point, the number of points that groups add to the frontier, and
of those that they dominate. Exits with 1 if groups lose a point.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from rich.table import Table

from benchmarks.entry import console, entry
from benchmarks.figures import TARGET
from benchmarks.shared import find_shared
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ops.partial_product import PartialProduct
from penstock.ops.requantise_sums import RequantiseSums
from penstock.pareto import frontier
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.graphs import read, simplify
from penstock.pipeline.search import schedule
from penstock.scheduling.model.parts import Parts
from penstock.scheduling.model.schedule import Schedule
from penstock.scheduling.options import Options

LIMITS = (1.0, 2.0)
"""F: executed multiply-accumulates as a multiple of the necessary ones."""
INPUTS = ("memory", "streamed")
ZOO = (
    "zoo:mobilenet_v2:alpha=0.35,resolution=160",
    "zoo:mobilenet_v2",
    "zoo:mobilenet_v2:alpha=1.4",
)
SHARED = ("mobilenetv2_160_035", "rand_mobilenet_v2_0.35_144_int8")


@dataclass(frozen=True, slots=True)
class Blocks:
    """Inverted bottlenecks, one after the other.

    size: rows and columns of the input.
    channels, hidden, outputs: channels of the input, of the hidden tensors, and of the output.
    """

    size: int
    channels: int
    hidden: int
    outputs: int
    stride: int = 1
    count: int = 1

    def graph(self) -> Graph:
        """Return the network."""
        net = GraphBuilder("blocks")
        x = net.input((1, self.size, self.size, self.channels))
        for _ in range(self.count):
            hidden = net.conv2d(x, self.hidden, 1, activation="relu6")
            hidden = net.depthwise_conv2d(hidden, 3, self.stride, activation="relu6")
            y = net.conv2d(hidden, self.outputs, 1)
            x = net.add(x, y) if x.type.shape == y.type.shape else y
        return net.build(x)


BLOCKS: Mapping[str, Callable[[], Graph]] = {
    "block 56x56, 24-144-24": Blocks(56, 24, 144, 24).graph,
    "block 28x28, 24-144-24": Blocks(28, 24, 144, 24).graph,
    "block 28x28, 24-576-24": Blocks(28, 24, 576, 24).graph,
    "block 28x28, 24-144-32, stride 2": Blocks(28, 24, 144, 32, 2).graph,
    "3 blocks 14x14, 64-384-64": Blocks(14, 64, 384, 64, count=3).graph,
    "block 7x7, 160-960-160": Blocks(7, 160, 960, 160).graph,
    "block 7x7, 160-960-320": Blocks(7, 160, 960, 320).graph,
    "block 5x5, 56-336-56": Blocks(5, 56, 336, 56).graph,
    "block 3x3, 64-384-64": Blocks(3, 64, 384, 64).graph,
    "block 14x14, 64-128-64": Blocks(14, 64, 128, 64).graph,
}


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if groups lose a point of a frontier."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.channel_groups",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", nargs="?", type=Path, help="folder of models")
    parser.add_argument("--network", action="append", metavar="NAME", help="only this; repeatable")
    parser.add_argument("--target", default=TARGET, metavar="NAME")
    parser.add_argument("--limit", type=float, action="append", metavar="F", help="repeatable")
    wanted = parser.parse_args(arguments)
    table = Table(title=f"live bytes on {wanted.target} without and with channel groups")
    table.add_column("network")
    table.add_column("input")
    for heading in ("F", "without", "with", "saved", "cycles", "cycles", "groups", "new", "lost"):
        table.add_column(heading, justify="right")
    lost = 0
    for name in wanted.network or (*ZOO, *SHARED, *BLOCKS):
        for way, limit in product(INPUTS, wanted.limit or LIMITS):
            row, count = compared(name, wanted.folder, wanted.target, way, limit)
            table.add_row(name, way, f"{limit:g}", *row)
            lost += count
    console().print(table)
    print(f"{lost} points are lost")
    return int(lost > 0)


def compared(
    name: str, folder: Path | None, target: str, way: str, limit: float
) -> tuple[tuple[str, ...], int]:
    """Return the cells of a row, and the number of points that the search with groups loses."""
    options = Options(max_recompute=limit)
    request = api.request(_model(name, folder), target, stream_input=way == "streamed")
    request = replace(request, options=options)
    graph = simplify(BLOCKS[name]() if name in BLOCKS else read(request.model))
    parts = assign_engines(graph, request)
    whole = replace(parts, alternatives=tuple(p for p in parts.alternatives if not _groups(p)))
    fronts = [_front(schedule(p, request.target, options).schedules) for p in (whole, parts)]
    without, found = fronts
    least = found[0].assigned_parts
    known = [_figures(one) for one in without]
    lost = [
        pair
        for pair in known
        if not any(one.peak_bytes <= pair[0] and one.cost.cycles <= pair[1] for one in found)
    ]
    new = [one for one in found if _figures(one) not in known]
    fastest = without[-1].cost.cycles
    row = (
        f"{without[0].peak_bytes:,}",
        f"{found[0].peak_bytes:,}",
        f"{1 - found[0].peak_bytes / without[0].peak_bytes:.1%}",
        *(f"{front[0].cost.cycles / fastest:.3f}" for front in fronts),
        " x ".join(map(str, _groups(least))) or "-",
        f"{len(new)}",
        f"{len(lost)}",
    )
    return row, len(lost)


def _model(name: str, folder: Path | None) -> str:
    """Return the model of a request; for a block, any one."""
    if name in BLOCKS:
        return ZOO[0]
    return name if name.startswith("zoo:") else str(find_shared(folder).named([name])[0])


def _groups(parts: Parts) -> tuple[int, ...]:
    """Return the number of grouped chains, and of groups of each; empty if there are none."""
    operators = [node.op for node in parts.graph.nodes]
    chains = sum(isinstance(op, RequantiseSums) for op in operators)
    groups = sum(isinstance(op, PartialProduct) for op in operators)
    return (chains, groups // chains) if chains else ()


def _front(schedules: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """Return the Pareto-optimal schedules, least memory first."""
    return frontier(schedules, _figures)


def _figures(one: Schedule) -> tuple[int, int]:
    return one.peak_bytes, one.cost.cycles


if __name__ == "__main__":
    entry(main)
