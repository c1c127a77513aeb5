"""A report of handwritten layers with names that could break a page."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.ir.breakdown import Breakdown
from penstock.reports.command import CompileCommand
from penstock.reports.html import render_html
from penstock.reports.layer import Step, model_layers
from penstock.reports.report import (
    CycleCounts,
    Flash,
    Instructions,
    Macs,
    Optimality,
    Point,
    RamUsage,
    Report,
)
from penstock.reports.timeline import (
    Activity,
    EngineSpan,
    EngineTimes,
    LivePiece,
    MemorySpan,
    Stretch,
    Timeline,
)

NAMES = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "名前/слой/😀",
    "nul\x00 escape\x1b[31m",
    "$x^2$ {{ 7 * 7 }} @@data@@",
    "W" * 600,
    "&amp;<!--",
    "\u202eright to left",
    "very/long/" * 40,
    "lone \ud800 surrogate",
    "__proto__",
)
CYCLES, SLOT = 1000, 4096


def odd_report(count: int) -> bytes:
    """A page of `count` layers, of which every other ten are a cascade, and every third runs on an
    accelerator."""
    stretches = tuple(_stretches(count))
    layers = tuple(_layer(index, stretches) for index in range(count))
    calls = sum(stretch.calls for stretch in stretches)
    spans = tuple(_spans(layers, stretches, calls + 2))
    times = EngineTimes(
        tuple(
            EngineSpan(one.engine, Activity.COMPUTES, k * CYCLES, (k + 1) * CYCLES, (one.name,))
            for k, one in enumerate(layers)
        ),
        tuple(count * CYCLES * k / calls for k in range(calls + 1)),
    )
    report = Report(
        NAMES[1],
        NAMES[0],
        RamUsage(30000, 29000, 0, 1000, 100, 100),
        Flash(4, 4, None),
        Macs(10**12, 10**12, 0),
        CycleCounts(count * CYCLES, None),
        Instructions(None),
        tuple(Point(30000 + 50 * k, 10**9 - k, 10**12, k == 3) for k in range(40)),
        Optimality("optimal", 0.2, 0.9),
        CompileCommand(NAMES[1], NAMES[0]),
        layers=layers,
        model_layers=model_layers(layers),
        timelines=(Timeline(spans, stretches),),
        engine_times=times,
    )
    return render_html(report)


def _stretches(count: int) -> Iterator[Stretch]:
    for first in range(0, count, 10):
        end = min(count, first + 10)
        if first // 10 % 2:
            yield Stretch(end - first, 4 * (end - first), (first, end - 1), first // 20)
        else:
            yield from (Stretch(1, 1, (k, k), None) for k in range(first, end))


def _layer(index: int, stretches: tuple[Stretch, ...]) -> Step:
    striped = index // 10 % 2 == 1
    offloaded = index % 3 == 0
    return Step(
        step=index,
        name=f"{NAMES[index % len(NAMES)]}/{index}",
        kind="Conv2D<b>" if index % 7 == 0 else "Conv2D",
        origin="",
        shape=(1, 32, 32, 8),
        cascade=index // 20 if striped else None,
        rows=2 if striped else None,
        reads=tuple(sorted({index - 1, max(-1, index - 1 - index * 7 % 23)})),
        calls=4 if striped else 1,
        macs=10**9 * index,
        read_bytes=900,
        written_bytes=8192,
        cycles=CYCLES,
        engine="npu <i>" if offloaded else "cpu",
        offloaded=offloaded,
        breakdown=Breakdown(CYCLES, {"multipliers": 500, "<i>memory": 700}, 64)
        if offloaded
        else None,
    )


def _spans(layers: tuple[Step, ...], stretches: tuple[Stretch, ...], ticks: int):
    """A block for each layer, in its stretch and the next tick; blocks do not overlap."""
    index, tick = 0, 1
    for stretch in stretches:
        for k in range(stretch.layers):
            lower = SLOT * (2 * k + index % 2 if stretch.layers == 1 else 2 + k)
            piece = LivePiece(lower, lower + 4000, tick, min(ticks, tick + stretch.calls))
            yield MemorySpan(layers[index].name, "arena", (piece,), (layers[index].name,))
            index += 1
        tick += stretch.calls
