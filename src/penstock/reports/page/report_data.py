"""The page of a compilation as data: all that report.html and profile.html show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.hardware.target import CALLER
from penstock.reports.engine_times import EngineTimes
from penstock.reports.engine_work import has_simulated, shares
from penstock.reports.formats import (
    kib,
    number,
    printable,
    relative,
)
from penstock.reports.goal import alternative_words, goal_words
from penstock.reports.model_layer import ModelLayer
from penstock.reports.page.layer_data import layer_data
from penstock.reports.page.memory_data import memory_data, stretches
from penstock.reports.page.records import (
    EngineData,
    EngineSpanData,
    FallbackData,
    FrontierData,
    KeyFigure,
    MemoryPart,
    OtherOptionsData,
    PageData,
    PointData,
    SeriesData,
    StatementData,
)
from penstock.reports.report import RamUsage, Report, RungReport
from penstock.reports.row import Measured
from penstock.reports.timeline import Timeline
from penstock.reports.times import duration
from penstock.reports.verdict import verdicts

_STREAM_INPUT = "--stream-input"


def report_data(
    report: Report,
    layers: Sequence[ModelLayer],
    timelines: Sequence[Timeline],
    times: EngineTimes | None,
    measured: Sequence[Measured | None] | None = None,
    budget_bytes: int | None = None,
) -> PageData:
    """Return the data of a compilation.

    `measured` contains the counts of a simulated core per step, in the order of the program.
    `budget_bytes` is the maximum size of the arena. Without `times`, the page has no axis of
    cycles.
    """
    indices: dict[str, list[int]] = {}
    for index, layer in enumerate(layers):
        for name in dict.fromkeys(step.name for step in layer.steps):
            indices.setdefault(name, []).append(index)
    return PageData(
        title=printable(report.model),
        subtitle=f"compiled for {printable(report.target)} by {report.compiler}",
        provenance=_provenance(report),
        warning=_warning(report),
        command=printable(str(report.command)),
        figures=_figures(report),
        ram=_ram_parts(report.ram_bytes),
        ram_notes=tuple(_ram_notes(report)),
        others=tuple(
            OtherOptionsData(words, printable(str(report.command.with_options(other.options))))
            for words, other in zip(alternative_words(report), report.alternatives, strict=True)
        ),
        statements=_statements(report),
        layers=layer_data(layers, timelines, measured),
        stretches=stretches(timelines[0].stretches, layers),
        tick_cycles=() if times is None else _tick_cycles(times),
        memories=tuple(memory_data(t, layers, budget_bytes) for t in timelines),
        engines=_engines(report),
        engine_spans=() if times is None else tuple(_spans(times, indices)),
        fallbacks=tuple(
            FallbackData(printable(node.where), node.cycles, printable(node.why))
            for node in report.left_to_cpu
        ),
        frontier=_frontier(report),
        notes=_notes(report, layers, measured),
    )


def _provenance(report: Report) -> tuple[str, ...]:
    """Return how the point was selected."""
    return (f"selected: {goal_words(report)}",)


def _warning(report: Report) -> str:
    if not report.numbers_assumed:
        return ""
    return "Scheduled as if int8 (--assume-int8): the scales are arbitrary, and outputs are " + (
        "meaningless."
    )


def _figures(report: Report) -> tuple[KeyFigure, ...]:
    """Return the key figures."""
    ram, flash, macs, cycles = report.ram_bytes, report.flash_bytes, report.macs, report.cycles
    code = "code not compiled" if flash.code is None else f"code {number(flash.code)}"
    shown = cycles.estimated if cycles.simulated is None else cycles.simulated
    arena = f"arena {number(ram.arena)}"
    others = (f"other memories {number(ram.static)}",) if ram.static else ()
    return (
        KeyFigure(
            "RAM",
            number(ram.total),
            "bytes",
            (kib(ram.total), arena, *others, f"stack reserve {number(ram.stack)}"),
        ),
        *_streamed_figure(report),
        KeyFigure(
            "Flash",
            number(flash.total),
            "bytes",
            (kib(flash.total), f"weights {number(flash.weights)}", code),
        ),
        KeyFigure("MACs", number(macs.executed), "executed", _mac_notes(report)),
        KeyFigure(
            "Cycles",
            number(shown),
            f"estimated{report.estimated_note}" if cycles.simulated is None else "simulated",
            _cycle_notes(report),
        ),
    )


def _is_streamed(report: Report) -> bool:
    """Return whether the compiled program itself has a streamed input."""
    return _STREAM_INPUT in report.command.options


def _streamed_figure(report: Report) -> tuple[KeyFigure, ...]:
    """Return the least RAM with a streamed input, if that was planned and the report does not
    stream it itself; with the point that the same goal selects."""
    least = report.ram_bytes_streamed_input
    if least is None or _is_streamed(report):
        return ()
    selected = (
        f"goal {report.optimize} {number(one.ram_bytes)} at "
        f"{relative(one.cycles, report.cycles.estimated)} cycles"
        for one in report.alternatives
        if one.options == _STREAM_INPUT
    )
    notes = (kib(least), _STREAM_INPUT, *selected)
    return (KeyFigure("Least RAM, input streamed", number(least), "bytes", notes),)


def _mac_notes(report: Report) -> tuple[str, ...]:
    macs = report.macs
    constant = (f"constant {number(macs.constant)}",) if macs.constant else ()
    recomputed = (f"F {macs.factor:.2f}",) if macs.factor > 1 else ()
    return (f"model {number(macs.model)}", *constant, *recomputed)


def _cycle_notes(report: Report) -> tuple[str, ...]:
    cycles = report.cycles
    shown = cycles.estimated if cycles.simulated is None else cycles.simulated
    time = duration(shown, report.clock_hz)
    timed = (time,) if time else ()
    if cycles.simulated is None:
        partly = has_simulated(report.engines)
        return (*timed, "only the processor is simulated" if partly else "not simulated")
    return (
        *timed,
        f"estimated {number(report.cycles.estimated)}{report.estimated_note}",
        f"instructions {number(report.instructions.simulated)}",
    )


def _ram_parts(ram: RamUsage) -> tuple[MemoryPart, ...]:
    state = (MemoryPart("– state", ram.state, "kept between runs, inside the arena"),)
    return (
        MemoryPart("arena", ram.arena, "the buffer that holds all tensors"),
        MemoryPart("– io", ram.io, "inputs and outputs, inside the arena"),
        MemoryPart("– scratch", ram.scratch, "temporary memory of kernels, inside the arena"),
        *(state if ram.state else ()),
        MemoryPart("static", ram.static, "buffers in other memories"),
        MemoryPart("stack", ram.stack, "reserve"),
        MemoryPart("total", ram.total, "arena + static + stack"),
    )


def _ram_notes(report: Report) -> list[str]:
    found: list[str] = []
    if report.ram_bytes_streamed_input is not None and not _is_streamed(report):
        least = report.ram_bytes_streamed_input
        found.append(
            "With a streamed input, which is scheduled separately, at least "
            f"{number(least)} bytes ({kib(least)}) in total."
        )
    if report.stack_bytes_measured is not None:
        measured = number(report.stack_bytes_measured)
        found.append(f"Stack measured on the simulated core: {measured} bytes.")
    for memory, size in report.free_bytes.items():
        found.append(f"Not counted as RAM: {number(size)} bytes of {printable(memory)}.")
    return found


def _statements(report: Report) -> tuple[StatementData, ...]:
    proved = (StatementData(v.subject, v.words) for v in verdicts(report.optimality))
    checked = (
        StatementData(f"checked: {rung.step}", _found(rung), bool(rung.mismatches))
        for rung in report.verified
    )
    return (*proved, *checked)


def _found(rung: RungReport) -> str:
    """Return the counts of a rung as text; the reason if it was not run."""
    if rung.mismatches is None:
        return rung.note
    counts = (
        f"{number(rung.tensors)} tensors, {number(rung.elements)} elements, "
        f"{number(rung.mismatches)} mismatches"
    )
    return f"{counts}; {rung.note}" if rung.note else counts


def _tick_cycles(times: EngineTimes) -> tuple[int, ...]:
    """Return the cycles at which each tick begins; the caller's ticks take no time."""
    return (0, *map(round, times.call_cycles), round(times.call_cycles[-1]))


def _engines(report: Report) -> tuple[EngineData, ...]:
    return tuple(
        EngineData(
            printable(engine.name),
            engine.nodes,
            engine.calls,
            engine.macs,
            engine.cycles.estimated,
            engine.cycles.simulated,
            round(share, 6),
        )
        for engine, share in zip(report.engines, shares(report.engines), strict=True)
    )


def _spans(times: EngineTimes, indices: Mapping[str, Sequence[int]]) -> list[EngineSpanData]:
    """Return the spans of the engines; none if the processor is the only one."""
    if len({span.engine for span in times.spans} - {CALLER}) < 2:
        return []
    return [
        EngineSpanData(
            printable(span.engine),
            span.activity.value,
            round(span.lower_cycles),
            round(span.upper_cycles),
            tuple(k for name in span.layers for k in indices.get(name, ())),
        )
        for span in times.spans
        if round(span.upper_cycles) > round(span.lower_cycles)
    ]


def _frontier(report: Report) -> FrontierData:
    command = report.command
    points = tuple(
        PointData(
            point.ram_bytes,
            point.cycles,
            point.macs_executed,
            point.chosen,
            printable(str(command.selecting(point.ram_bytes))),
        )
        for point in report.frontier
    )
    return FrontierData((SeriesData("compiled", points),), command.sram_bytes, goal_words(report))


def _notes(
    report: Report, layers: Sequence[ModelLayer], measured: Sequence[Measured | None] | None
) -> tuple[str, ...]:
    """Return the notes below the table of layers."""
    found = [
        "Bytes are those of the regions that kernels access, not of load instructions. MACs are "
        "nominal and include the padding."
    ]
    if any(step.traffic for layer in layers for step in layer.steps):
        found.append(
            "For accelerators whose backend states it, bytes moved are the actual traffic: whole "
            "channel packs, tables, repeated fetches."
        )
    shares_of = "simulated" if measured else "estimated"
    beside = ", or to estimated ones for layers that run on an accelerator"
    offloads = measured and any(layer.offloaded for layer in layers)
    found.append(f"Shares refer to {shares_of} cycles{beside if offloads else ''}.")
    if report.requantisation:
        found.append(
            "Requantisation counts output channels per class: A uses one high multiply, B adds a "
            "shift, C adds a correction, D is the 64-bit arithmetic of the reference; A to C are "
            "proved bit-exact."
        )
    if any(layer.main.cascade is not None for layer in layers):
        found.append("The rows of a cascade are the maximum that one call of that layer computes.")
    if any(layer.main.bands for layer in layers):
        found.append(
            "Layers of a chain compute, in each of its calls, what that call needs, in bands of "
            "columns. F is the number of computed elements as a multiple of those of the output, "
            "over all bands of the layer."
        )
    return tuple(found)
