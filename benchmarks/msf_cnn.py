"""RAM against recomputation for the networks of msf-CNN (NeurIPS 2025), beside its own points.

Both sides are analytic: live bytes of intermediate tensors, without the network's input and output,
against F, the ratio of executed to necessary multiply-accumulates.  The file lists the layers of
each network and the points that msf-CNN finds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.entry import console, entry
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.ir.graph import Graph
from penstock.ladder import climb
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.compilation import compile_graph, with_point
from penstock.pipeline.graphs import simplify
from penstock.pipeline.search import schedule
from penstock.scheduling.options import Options

TARGET = "cortex-m4"
SHARE, MINIMUM_SHARE = 0.9, 1.0
"""Largest ratio to msf-CNN's RAM at its points, and at its minimum."""
EVERY = 10
"""One of so many points of the frontier is executed."""


@dataclass(frozen=True, slots=True)
class Point:
    """RAM in bytes against F, the ratio of executed to necessary multiply-accumulates."""

    ram_bytes: int
    factor: float


def network(name: str, layers: Sequence[Sequence[Any]], shape: Sequence[int]) -> Graph:
    """The chain of convolutions as an int8 network with random weights."""
    net = GraphBuilder(name)
    x = net.input((1, *shape))
    for kind, size, stride, padding, _, channels, *_ in layers:
        pad = "same" if padding else "valid"
        if kind == "conv":
            x = net.conv2d(x, channels, size, stride, pad)
        else:
            x = net.depthwise_conv2d(x, size, stride, pad)
    return net.build(x)


def points(graph: Graph, most: float) -> Iterator[Point]:
    """Live bytes and F of every schedule of the frontier, with F of at most `most`."""
    request = api.request("zoo:lenet5", target=TARGET, options=Options(max_recompute=most))
    parts = assign_engines(simplify(graph), request)
    ends = frozenset(value.name for value in (*graph.inputs, *graph.outputs))
    found = schedule(replace(parts, outside=ends), request.target, request.options)
    for one in found.schedules:
        yield Point(one.peak_bytes, one.cost.nominal_macs / graph.macs())


def compare(name: str, facts: Mapping[str, Any]) -> bool:
    """Print a table of msf-CNN's points and ours; return whether all ratios are within limits."""
    graph = network(name, facts["layers"], facts["input_hwc"])
    theirs = [Point(p["ram_bytes"], p["mac_overhead"]) for p in facts["frontier_by_msf_cnn"]]
    ours = sorted(points(graph, max(p.factor for p in theirs)), key=lambda p: p.ram_bytes)
    table = Table(title=f"{name}: RAM in bytes at no more multiply-accumulates than msf-CNN")
    for heading in ("F", "msf-CNN", "penstock", "F of penstock", "ratio", "limit"):
        table.add_column(heading, justify="right")
    least = min(p.ram_bytes for p in theirs)
    fine = True
    for point in theirs:
        best = next(p for p in ours if p.factor <= point.factor + 1e-9)
        limit = MINIMUM_SHARE if point.ram_bytes == least else SHARE
        ratio = best.ram_bytes / point.ram_bytes
        fine &= ratio <= limit
        numbers = (f"{point.factor:.3f}", f"{point.ram_bytes:,}", f"{best.ram_bytes:,}")
        table.add_row(*numbers, f"{best.factor:.3f}", f"{ratio:.3f}", f"{limit:.2f}")
    console().print(table)
    return fine


def execute(name: str, facts: Mapping[str, Any]) -> bool:
    """Run the points of the compiled network, with the input in memory and streamed; return whether
    all are exact: every point on the machine, every tenth and the last one also as generated C."""
    graph = network(name, facts["layers"], facts["input_hwc"])
    wrong = 0
    for streamed in (False, True):
        options = Options(max_recompute=3.0)
        request = api.request("zoo:lenet5", TARGET, stream_input=streamed, options=options)
        done = compile_graph(graph, request)
        chosen = {*range(0, len(done.points), EVERY), len(done.points) - 1}
        for number, point in ((k, done.points[k]) for k in sorted(chosen)):
            one = with_point(done, point)
            rungs = list(climb(one, None, api.drawn_sets(one, 1), every_point=number == 0))
            wrong += sum(rung.comparison.mismatches for rung in rungs)
            factor = point.schedule.cost.nominal_macs / graph.macs()
            shown = ", ".join(
                f"{r.step} {r.comparison.mismatches} of {r.comparison.elements:,}" for r in rungs
            )
            console().print(
                f"{name}, input {'streamed' if streamed else 'in memory'}, point {number + 1} of "
                f"{len(done.points)}: {point.height_bytes:,} bytes at F {factor:.3f}; "
                f"elements that differ: {shown}"
            )
    return wrong == 0


def main(arguments: Sequence[str]) -> int:
    """Print figures; return 1 if a ratio exceeds its limit or an element differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.msf_cnn", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--network")
    parser.add_argument("--execute", action="store_true")
    given = parser.parse_args(arguments)
    networks = json.loads(given.file.read_text())["networks"]
    chosen = {k: v for k, v in networks.items() if given.network in (None, k)}
    check = execute if given.execute else compare
    fine = [check(name, facts) for name, facts in chosen.items()]
    return 0 if fine and all(fine) else 1


if __name__ == "__main__":
    entry(main)
