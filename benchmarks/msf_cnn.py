"""RAM against recomputation for the networks of msf-CNN (NeurIPS 2025), beside its own points.

Both sides are analytic: live bytes of intermediate tensors, without the network's input and output,
against F, the ratio of executed to necessary multiply-accumulates.  The file lists the layers of
each network and the points that msf-CNN finds.  The F of each point is the limit of a search
(`--max-recompute`); the point is compared with the best schedule of all searches.  Beside the live
bytes stands the size of the placed arena, with alignment and gaps, without input and output.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.entry import console, entry
from penstock import api
from penstock.frontends.builder import GraphBuilder
from penstock.hardware.load import load_target
from penstock.ir.graph import Graph
from penstock.ladder import Truth, climb
from penstock.pipeline.assignment import assign_engines
from penstock.pipeline.compilation import compile_graph, with_point
from penstock.pipeline.graphs import simplify
from penstock.pipeline.placing import place
from penstock.pipeline.search import schedule
from penstock.scheduling.bands.band_schedule import expanded_band
from penstock.scheduling.model.bands import Bands
from penstock.scheduling.model.schedule import Frontier, Schedule
from penstock.scheduling.options import Options
from penstock.scheduling.simulate.expanded_schedule import ExpandedSchedule, live_bytes

TARGET = "cortex-m4"
SHARE, MINIMUM_SHARE = 0.9, 1.0
"""Largest ratio to msf-CNN's RAM at its points, and at its minimum."""
MOST_WITHOUT_RECOMPUTATION = {"MBV2-w0.35": 18_700, "MN2-vww5": 16_500, "MN2-320K": 83_500}
"""Most live bytes at F = 1."""
NO_RECOMPUTATION = 1.000001
"""Limit of F at which cascades still run in bands and chains, but without recomputation."""
EVERY = 10
"""One of so many points of the frontier is executed."""


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


def schedules(graph: Graph, most: float) -> tuple[Schedule, ...]:
    """The schedules of the frontier, with F of at most `most`."""
    options = Options(max_recompute=max(most, NO_RECOMPUTATION))
    request = api.request("zoo:lenet5", target=TARGET, options=options)
    parts = assign_engines(simplify(graph), request)
    ends = frozenset(value.name for value in (*graph.inputs, *graph.outputs))
    return schedule(replace(parts, outside=ends), request.target, request.options).schedules


def arena_bytes(found: Schedule) -> int:
    """Size of the placed arena."""
    (point,) = place(Frontier((found,)), load_target(TARGET), Options())
    return point.height_bytes


def live_peak(found: Schedule) -> int:
    """Live bytes at the peak: in the arenas of bands, too, those of the tensors, without gaps."""
    expanded = ExpandedSchedule(found)
    live = live_bytes(expanded)
    peaks: list[int] = []
    for cascade in expanded.cascades:
        bands = [found.find_bands(found.parts.parts[k]) for k in cascade.plan.parts]
        inner = [live_arena(b, found) for b in bands if b is not None]
        gaps = cascade.plan.scratch_bytes - max(inner) if inner else 0
        peaks.append(int(live[cascade.tick : cascade.end].max()) - gaps)
    return max(peaks)


def live_arena(bands: Bands, found: Schedule) -> int:
    """Live bytes in the arena of bands; in chains, whose parts run once per call, its size."""
    if bands.call_rows is not None:
        return bands.call_scratch_bytes
    return max(int(live_bytes(expanded_band(b, found.memory)).max()) for b in bands.bands)


def compare(name: str, facts: Mapping[str, Any]) -> bool:
    """Print a table of msf-CNN's points and ours; return whether all are within limits."""
    graph = network(name, facts["layers"], facts["input_hwc"])
    theirs = [(p["ram_bytes"], p["mac_overhead"]) for p in facts["frontier_by_msf_cnn"]]
    every = [found for _, factor in theirs for found in schedules(graph, factor)]
    table = Table(title=f"{name}: RAM in bytes at no more multiply-accumulates than msf-CNN")
    for heading in ("F", "msf-CNN", "live", "placed", "F of penstock", "ratio", "limit"):
        table.add_column(heading, justify="right")
    fine = True
    for ram_bytes, factor in theirs:
        within = (s for s in every if s.cost.nominal_macs <= (factor + 1e-9) * graph.macs())
        best = min(within, key=live_peak)
        limit = float(ram_bytes) * (MINIMUM_SHARE if (ram_bytes, factor) == min(theirs) else SHARE)
        if factor == 1.0:
            limit = MOST_WITHOUT_RECOMPUTATION.get(name, limit)
        live = live_peak(best)
        fine &= live <= limit
        sizes = (f"{size:,}" for size in (ram_bytes, live, arena_bytes(best)))
        ours = f"{best.cost.nominal_macs / graph.macs():.3f}"
        table.add_row(f"{factor:.3f}", *sizes, ours, f"{live / ram_bytes:.3f}", f"{limit:,.0f}")
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
            rungs = list(climb(one, Truth(), api.drawn_sets(one, 1), every_point=number == 0))
            wrong += sum(rung.compared.mismatches for rung in rungs)
            factor = point.schedule.cost.nominal_macs / graph.macs()
            shown = ", ".join(
                f"{r.step} {r.compared.mismatches} of {r.compared.elements:,}" for r in rungs
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
