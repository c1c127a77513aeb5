"""SMAUG sweep: latency and traffic on smv against scratchpad sizes, bandwidth and lanes.

    python -m benchmarks.smaug_sweep [PICTURE] [--network resnet8|vgg] [--workers N] [--quick]

Prints a table for resnet8 and for a quarter of the rows of a layer of VGG16, and draws both into
PICTURE, by default smaug_sweep.svg.  Schedules are layer by layer, as SMAUG's are, and the fastest
is selected.  All figures are the compiler's estimates: cycles of the whole network, those in which
the engine computes and copies run, and the bytes copied between memory and scratchpads.  With
--quick, each axis has two values.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from rich.table import Table

from benchmarks.entry import console, entry
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.scheduling.options import Options

SCRATCHPADS = ("input_bytes", "weights_bytes", "output_bytes")
KIB = 1024
SIZES = (8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB)
BANDWIDTHS = (2, 8, 32)
LANES = (4, 8, 16)
"""Bytes of each scratchpad, bytes per cycle, and processing elements; SMAUG's are 32 KiB, 8 here,
and 8."""
HEADER = ("KiB each", "bytes/cycle", "lanes", "cycles", "engine", "copies", "bytes moved", "on CPU")
COLOURS = ("tab:blue", "tab:orange", "tab:green")
STYLES = (":", "-", "--")


def vgg() -> Graph:
    """A quarter of the rows of VGG16's fifth convolution."""
    net = GraphBuilder("vgg16_conv5")
    return net.build(net.conv2d(net.input((1, 14, 56, 128)), 256, 3, name="conv5"))


NETWORKS: Mapping[str, Callable[[], str | Graph]] = {"resnet8": lambda: "zoo:resnet8", "vgg": vgg}
TITLES = {"resnet8": "ResNet-8", "vgg": "a quarter of VGG16 conv 5"}


def main(arguments: Sequence[str]) -> int:
    """Prints a table for each network, and writes the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.smaug_sweep", description=__doc__)
    parser.add_argument("picture", nargs="?", type=Path, default=Path("smaug_sweep.svg"))
    parser.add_argument("--network", choices=NETWORKS, help="this one only")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--quick", action="store_true", help="two values for each axis")
    wanted = parser.parse_args(arguments)
    names = [wanted.network] if wanted.network else [*NETWORKS]
    found = {name: swept(NETWORKS[name](), wanted.workers, wanted.quick) for name in names}
    for name, one in found.items():
        console().print(table(name, one))
    draw(found, wanted.picture)
    print(f"wrote {wanted.picture}")
    return 0


def swept(model: str | Graph, workers: int, quick: bool) -> api.Swept:
    """Compiles a network for every configuration."""
    sizes, bandwidths, lanes = (
        (values[0], values[-1]) if quick else values for values in (SIZES, BANDWIDTHS, LANES)
    )
    return api.sweep(
        model,
        "host",
        accelerator="smv",
        axes={
            SCRATCHPADS: sizes,
            "bytes_per_cycle": bandwidths,
            "processing_elements": lanes,
        },
        workers=workers,
        optimize="speed",
        options=Options(max_parts=1),
    )


def table(name: str, found: api.Swept) -> Table:
    """A row for each configuration."""
    made = Table(*HEADER, title=f"{TITLES[name]} on {found.accelerator}")
    for one in found.configurations:
        size, bandwidth, lanes = parameters(one)
        busy = (f"{one.busy_cycles.get(name, 0):,.0f}" for name in ("engine", "copies"))
        made.add_row(
            f"{size // KIB}",
            f"{bandwidth}",
            f"{lanes}",
            f"{one.cycles:,}",
            *busy,
            f"{one.traffic_bytes:,}",
            ", ".join(one.cpu_fallbacks) or "-",
        )
    return made


def parameters(one: api.SweptConfiguration) -> tuple[int, int, int]:
    """Bytes of each scratchpad, bytes per cycle, and processing elements."""
    names = (SCRATCHPADS[0], "bytes_per_cycle", "processing_elements")
    size, bandwidth, lanes = (int(one.attributes[name]) for name in names)
    return size, bandwidth, lanes


def draw(found: Mapping[str, api.Swept], path: Path) -> None:
    """Draws latency and traffic against the size of the scratchpads: a line for each bandwidth and
    number of lanes, or a black one if all are equal."""
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    rows = len(found)
    figure, axes = pyplot.subplots(
        rows, 2, figsize=(12, 4 * rows), squeeze=False, layout="constrained"
    )
    for (name, one), (latency, traffic) in zip(found.items(), axes, strict=True):
        _lines(latency, one, lambda c: c.cycles / 1e3)
        _lines(traffic, one, lambda c: c.traffic_bytes / KIB)
        latency.set(title=f"{TITLES[name]}: latency", ylabel="thousand cycles")
        traffic.set(title=f"{TITLES[name]}: traffic", ylabel="KiB copied")
        traffic.legend()
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def _lines(axes: Any, found: api.Swept, value: Callable[[api.SweptConfiguration], float]) -> None:
    known = {parameters(one): value(one) for one in found.configurations}
    sizes, bandwidths, lanes = (sorted(set(values)) for values in zip(*known, strict=True))
    lines = {
        (bandwidth, count): tuple(known[size, bandwidth, count] for size in sizes)
        for bandwidth, count in product(bandwidths, lanes)
    }
    places = range(len(sizes))
    if len(set(lines.values())) == 1:
        label = "any bandwidth and lanes"
        axes.plot(places, lines[bandwidths[0], lanes[0]], "k-o", markersize=3, label=label)
    else:
        for (bandwidth, count), values in lines.items():
            axes.plot(
                places,
                values,
                color=COLOURS[lanes.index(count)],
                linestyle=STYLES[bandwidths.index(bandwidth)],
                marker="o",
                markersize=3,
                label=f"{bandwidth} bytes/cycle, {count} lanes",
            )
    axes.set_xticks(places, [f"{size // KIB}" for size in sizes])
    axes.set_xlabel("KiB of each scratchpad")
    axes.set_ylim(0, 1.05 * max(known.values()))


if __name__ == "__main__":
    entry(main)
