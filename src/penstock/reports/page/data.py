"""What pages show, as JSON for their scripts: reports and frontiers in words and rounded numbers.

A page contains this data as it is; `assets/` draws it. Every function returns an object, or a list
of them, whose keys the scripts read. A value that is None, False or empty is left out of the page,
and control characters in texts are escaped.
Layers are referred to by their index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from penstock.hardware.target import CALLER
from penstock.reports.codec import Json, encoded_fields
from penstock.reports.command import CompileCommand
from penstock.reports.formats import (
    duration,
    extents,
    first_name,
    kib,
    number,
    relative,
    short_names,
)
from penstock.reports.layer import (
    Layer,
    LayerTensor,
    Step,
    above_floor,
    layer_indices,
    layers_by_name,
    number_words,
)
from penstock.reports.phrases import GOALS, alternative_words, goal_words, verdicts
from penstock.reports.report import (
    RamUsage,
    Report,
    RungReport,
    cascade_words,
    has_simulated,
    shares,
)
from penstock.reports.timeline import EngineTimes, MemorySpan, Stretch, Timeline

if TYPE_CHECKING:
    from penstock.reports.frontier import FrontierPoint, FrontierReport  # takes long to import

Data = Mapping[str, Json]
MOST_COLUMNS = 4.0  # Maximum number of columns per layer of a cascade in the figure of a memory.
_STREAM_INPUT = "--stream-input"


def report_data(report: Report) -> Data:
    """Return what report.html and profile.html show.

    title, subtitle, provenance (how the point was selected), warning, command: words.
    layers: the layers in the order of the model.
    frontier, notes."""
    layers, times = report.model_layers, report.engine_times
    return {
        "title": report.model,
        "subtitle": f"compiled for {report.target} by {report.compiler}",
        "provenance": (f"selected: {goal_words(report)}",),
        "warning": _warning(report),
        "command": str(report.command),
        "figures": _figures(report),
        "ram": _ram_parts(report.ram_bytes),
        "ram_notes": _ram_notes(report),
        "others": [
            {
                "words": words,
                "command": str(report.command.with_options(other.options)),
            }
            for words, other in zip(alternative_words(report), report.alternatives, strict=True)
        ],
        "statements": _statements(report),
        "layers": layer_data(layers, report.timelines),
        "stretches": stretches(report.timelines[0].stretches, layers) if report.timelines else (),
        "tick_cycles": () if times is None else _tick_cycles(times),
        "memories": [memory_data(t, layers, _budget_bytes(report)) for t in report.timelines],
        "engines": _engines(report),
        "engine_spans": () if times is None else _spans(times, layers_by_name(layers)),
        "fallbacks": [
            {
                "node": node.where,
                "cycles": node.cycles,
                "reason": node.why,
            }
            for node in report.left_to_cpu
        ],
        "frontier": {
            "series": (_compiled_series(report),),
            "limit_bytes": report.command.sram_bytes,
            "goal": goal_words(report),
        },
        "notes": _notes(report),
    }


def frontier_data(found: FrontierReport) -> Data:
    """Return what frontier.html shows; the keys are those of `report_data`."""
    command = found.command
    kind = "streamed" if found.stream_input else "an array in RAM"
    series = [_series(found, f"input {kind}", found.choices, command, found.chosen)]
    if found.streamed is not None:
        streamed = command.with_options(_STREAM_INPUT)
        series.append(_series(found, "input streamed", found.streamed, streamed, None))
    return {
        "title": found.model,
        "subtitle": f"memory against cycles on {found.target}, by {found.compiler}",
        "provenance": (f"selected: {goal_words(found)}",),
        "command": str(command),
        "figures": _frontier_figures(found),
        "frontier": {
            "series": series,
            "limit_bytes": found.limit_bytes,
            "goal": GOALS[found.optimize.value],
        },
        "notes": (
            "RAM is the arena with inputs and outputs, the static bytes of other memories, and "
            f"{number(found.stack_bytes)} bytes of stack. Live: peak of the live bytes in the "
            "arena, below which no placement of this schedule lies.",
            "F: multiply-accumulates executed, relative to the model's "
            f"{number(found.macs)}. Bytes are those of the regions that kernels access. A cascade "
            "is written as layers × maximum rows per stripe; layers outside of cascades run whole.",
        ),
    }


def _budget_bytes(report: Report) -> int | None:
    """The maximum size of the arena; None without a budget."""
    sram_bytes = report.command.sram_bytes
    return None if sram_bytes is None else sram_bytes - report.ram_bytes.stack


def _warning(report: Report) -> str:
    if not report.numbers_assumed:
        return ""
    return "Scheduled as if int8 (--assume-int8): the scales are arbitrary, and outputs are " + (
        "meaningless."
    )


def _figure(label: str, value: str, unit: str, notes: Sequence[str]) -> Data:
    return {"label": label, "value": value, "unit": unit, "notes": notes}


def _figures(report: Report) -> Sequence[Data]:
    ram, flash, macs, cycles = report.ram_bytes, report.flash_bytes, report.macs, report.cycles
    code = "code not compiled" if flash.code is None else f"code {number(flash.code)}"
    shown = cycles.estimated if cycles.simulated is None else cycles.simulated
    others = (f"other memories {number(ram.static)}",) if ram.static else ()
    ram_notes = (f"arena {number(ram.arena)}", *others, f"stack reserve {number(ram.stack)}")
    flash_notes = (kib(flash.total), f"weights {number(flash.weights)}", code)
    kind = f"estimated{report.estimated_note}" if cycles.simulated is None else "simulated"
    return (
        _figure("RAM", number(ram.total), "bytes", (kib(ram.total), *ram_notes)),
        *_streamed_figure(report),
        _figure("Flash", number(flash.total), "bytes", flash_notes),
        _figure("MACs", number(macs.executed), "executed", _mac_notes(report)),
        _figure("Cycles", number(shown), kind, _cycle_notes(report)),
        *_accuracy_figures(report),
    )


def _accuracy_figures(report: Report) -> Iterator[Data]:
    """Figures for each output that was evaluated."""
    for one in report.evaluations:
        subject = f'"{one.output}", {number(one.compiled.samples)} samples'
        for found, words, in_float in one.figures():
            beside = (f"in float {in_float}",) if in_float else ()
            yield _figure("Accuracy", found, words, (*beside, subject))


def _is_streamed(report: Report) -> bool:
    return _STREAM_INPUT in report.command.options


def _streamed_figure(report: Report) -> Iterator[Data]:
    """The least RAM with a streamed input, if that was planned and the report does not
    stream it itself; with the point that the same goal selects."""
    least = report.ram_bytes_streamed_input
    if least is None or _is_streamed(report):
        return
    selected = (
        f"goal {report.optimize} {number(one.ram_bytes)} at "
        f"{relative(one.cycles, report.cycles.estimated)} cycles"
        for one in report.alternatives
        if one.options == _STREAM_INPUT
    )
    notes = (kib(least), _STREAM_INPUT, *selected)
    yield _figure("Least RAM, input streamed", number(least), "bytes", notes)


def _mac_notes(report: Report) -> Sequence[str]:
    macs = report.macs
    constant = (f"constant {number(macs.constant)}",) if macs.constant else ()
    recomputed = (f"F {macs.factor:.2f}",) if macs.factor > 1 else ()
    return (f"model {number(macs.model)}", *constant, *recomputed)


def _cycle_notes(report: Report) -> Sequence[str]:
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


def _ram_parts(ram: RamUsage) -> Sequence[Data]:
    """The parts of the RAM, in bytes."""
    parts = (
        ("arena", ram.arena, "the buffer that holds all tensors"),
        ("– io", ram.io, "inputs and outputs, inside the arena"),
        ("– scratch", ram.scratch, "temporary memory of kernels, inside the arena"),
        *((("– state", ram.state, "kept between runs, inside the arena"),) if ram.state else ()),
        ("static", ram.static, "buffers in other memories"),
        ("stack", ram.stack, "reserve"),
        ("total", ram.total, "arena + static + stack"),
    )
    return [{"name": name, "size_bytes": size, "note": note} for name, size, note in parts]


def _ram_notes(report: Report) -> Sequence[str]:
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
        found.append(f"Not counted as RAM: {number(size)} bytes of {memory}.")
    return found


def _statements(report: Report) -> Sequence[Data]:
    proved = ({"subject": one.subject, "words": one.words} for one in verdicts(report.optimality))
    checked = (
        {
            "subject": f"checked: {rung.step}",
            "words": _found(rung),
            "failed": bool(rung.mismatches),
        }
        for rung in report.verified
    )
    return (*proved, *checked)


def _found(rung: RungReport) -> str:
    """The counts of a rung as text; the reason if it was not run."""
    if rung.mismatches is None:
        return rung.note
    counts = (
        f"{number(rung.tensors)} tensors, {number(rung.elements)} elements, "
        f"{number(rung.mismatches)} mismatches"
    )
    return f"{counts}; {rung.note}" if rung.note else counts


def layer_data(layers: Sequence[Layer], timelines: Iterable[Timeline]) -> Sequence[Data]:
    """Return the layers: figures, which are sums over their steps, facts, tensors and steps.

    step, numbers: the first step in the program, and a phrase if there are several.
    live_bytes: maximum of its output that is live at a time; ram_bytes: that of the arena while it
        runs.
    bands: the chain, and how many bands; factor: F, absent if no layer runs in bands.
    steps: absent if there is only one."""
    live = {
        name: span.most_bytes
        for timeline in timelines
        for span in timeline.spans
        for name in span.layers
    }
    owners = layer_indices(layers)
    in_bands = any(layer.main.bands for layer in layers)
    return [_layer(layer, live, owners, in_bands=in_bands) for layer in layers]


def _layer(
    layer: Layer, live: Mapping[str, int], owners: Mapping[int, int], *, in_bands: bool
) -> Data:
    main, constant = layer.main, layer.main.constant
    above, used = above_floor(layer), layer.utilisation
    resources = main.breakdown.by_resource if main.breakdown else {}
    own = owners[layer.indices[0]]
    reads = (owners.get(read, -1) for step in layer.steps for read in step.reads)
    several = len(layer.steps) > 1
    return {
        "step": layer.step,
        "numbers": number_words(layer) if len(layer.numbers) > 1 else "",
        "kind": layer.kind,
        "engine": layer.engine,
        "offloaded": layer.offloaded,
        "name": layer.short_name,
        "full_name": layer.name,
        "shape": extents(layer.shape),
        "cascade": main.cascade,
        "rows": main.rows,
        "reads": [read for read in dict.fromkeys(reads) if read != own],
        **_work(layer),
        "live_bytes": live.get(layer.name, main.buffer_bytes or layer.written_bytes),
        "ram_bytes": layer.live_bytes,
        **_cycles(layer),
        "kernel": ", ".join(layer.kernels),
        "requantisation": ", ".join(f"{key} {n}" for key, n in main.requantisation.items()),
        "above_floor": None if above is None else round(above, 3),
        "limit": layer.limit,
        "utilisation": None if used is None else round(used, 4),
        "resources": {name: round(cycles) for name, cycles in resources.items()},
        "constant": "" if constant is None else constant.words,
        "channels": "" if constant is None else constant.ranges,
        "bands": "" if main.bands is None else main.bands.total_words,
        "factor": round(layer.factor, 3) if in_bands else None,
        "place": main.place,
        "attributes": {one.name: one.words for one in layer.attributes},
        "constant_bytes": main.constant_bytes,
        "weight_bytes": layer.weight_bytes,
        "tensors": [_tensor(one) for one in layer.tensors],
        "steps": [_step(step) for step in layer.steps] if several else (),
    }


def _work(line: Layer | Step) -> Data:
    return {
        "calls": line.calls,
        "macs": line.macs,
        "read_bytes": line.read_bytes,
        "written_bytes": line.written_bytes,
        "moved_bytes": line.moved_bytes,
    }


def _cycles(line: Layer | Step) -> Data:
    return {
        "cycles": line.cycles,
        "simulated_cycles": line.simulated_cycles,
        "instructions": line.simulated_instructions,
    }


def _step(step: Step) -> Data:
    """A step of a layer that is computed in several; `bands` says which ones it computes."""
    return {
        "step": step.step,
        "kind": step.kind,
        "bands": "" if step.bands is None else step.bands.words,
        "shape": extents(step.shape),
        **_work(step),
        **_cycles(step),
        "kernel": step.kernel,
    }


def _tensor(one: LayerTensor) -> Data:
    """A tensor. `scale` states one scale, or the range of several, which `scales` lists."""
    scale = ""
    if one.scales:
        least, most = one.scales
        scale = f"{least:.6g}" if least == most else f"{least:.3g} to {most:.3g}"
        scale += f", {one.channels} channels" if one.channels != 1 else ""
    return {
        "role": one.role,
        "name": first_name(one.name),
        "full_name": one.name,
        "shape": extents(one.shape),
        "element_type": one.element_type,
        "size_bytes": one.size_bytes,
        "scale": scale,
        "zero_point": "" if one.zero_point is None else str(one.zero_point),
        "scales": [f"{x:.6g}" for x in one.channel_scales],
    }


def stretches(found: Sequence[Stretch], layers: Sequence[Layer]) -> Sequence[Data]:
    """Return the stretches with their layers, in the order of their steps.

    columns: the width on an axis of steps. Each layer that runs whole has one column. A cascade has
        at least one per layer, whatever its number of calls; it gets more if whole layers would
        otherwise take more than half of the figure."""
    intervals = tuple(_step_intervals(found))
    own = [_stretch_layers(interval, layers) for interval in intervals]
    widths = column_widths([(len(some), one.cascade) for some, one in zip(own, found, strict=True)])
    return [
        {
            "layers": some,
            "calls": one.calls,
            "kernel_calls": _kernel_calls(interval, layers),
            "cascade": one.cascade,
            "columns": round(columns, 4),
            "words": one.words,
        }
        for one, interval, some, columns in zip(found, intervals, own, widths, strict=True)
    ]


def _kernel_calls(steps: range, layers: Sequence[Layer]) -> int:
    """The calls of some steps; a layer may have further steps elsewhere."""
    counts = (zip(layer.indices, layer.steps, strict=True) for layer in layers)
    return sum(step.calls for pairs in counts for index, step in pairs if index in steps)


def _step_intervals(found: Sequence[Stretch]) -> Iterator[range]:
    for first, end in pairwise(accumulate((one.layers for one in found), initial=0)):
        yield range(first, end)


def _stretch_layers(steps: range, layers: Sequence[Layer]) -> tuple[int, ...]:
    """The indices of the layers of some steps, in the order of their first steps."""
    own = [k for k, layer in enumerate(layers) if any(index in steps for index in layer.indices)]
    return tuple(sorted(own, key=lambda k: -1 if layers[k].step is None else layers[k].step or 0))


def column_widths(found: Sequence[tuple[int, int | None]]) -> tuple[float, ...]:
    """Return the columns of each stretch.

    found: for each stretch, the number of its layers and the index of its cascade, if it is one.
    """
    in_cascades = sum(layers for layers, cascade in found if cascade is not None)
    whole = sum(layers for layers, _ in found) - in_cascades
    each = min(MOST_COLUMNS, max(1.0, whole / max(1, in_cascades)))
    return tuple(layers * (1.0 if cascade is None else each) for layers, cascade in found)


def memory_data(timeline: Timeline, layers: Sequence[Layer], budget_bytes: int | None) -> Data:
    """Return a memory over time.

    blocks: the layers that each belongs to, and its areas: lower and upper byte, first and end
        tick.
    live: the ticks at which the live bytes change, and the bytes."""
    names = short_names(span.name for span in timeline.spans if span.kind != "scratch")
    indices, live = layers_by_name(layers), timeline.live_bytes
    changes = [0, *(np.flatnonzero(np.diff(live)) + 1).tolist()]
    return {
        "name": timeline.memory or "arena",
        "ticks": timeline.ticks,
        "height_bytes": timeline.height_bytes,
        "peak_bytes": timeline.peak_bytes,
        "peak_tick": timeline.peak_tick,
        "budget_bytes": budget_bytes if timeline.memory is None else None,
        "blocks": [
            {
                "name": names.get(span.name, "scratch"),
                "full_name": span.name,
                "kind": span.kind,
                "layers": _block_layers(span, timeline.stretches, indices, layers),
                "most_bytes": span.most_bytes,
                "by_rows": span.by_rows,
                "areas": span.pieces,
            }
            for span in timeline.spans
        ],
        "live": [(tick, int(live[tick])) for tick in changes],
    }


def _block_layers(
    span: MemorySpan,
    found: Sequence[Stretch],
    indices: Mapping[str, Sequence[int]],
    layers: Sequence[Layer],
) -> Sequence[int]:
    if span.layers or span.kind not in ("scratch", "constant"):
        return [k for name in span.layers for k in indices.get(name, ())]
    tick = span.dead - 1  # a copy may begin in the cascade before
    calls = accumulate((stretch.calls for stretch in found), initial=1)
    for (begun, ended), steps in zip(pairwise(calls), _step_intervals(found), strict=True):
        if begun <= tick < ended:
            return _stretch_layers(steps, layers)
    return ()


def _tick_cycles(times: EngineTimes) -> Sequence[int]:
    """The cycles at which each tick begins; the caller's ticks take no time."""
    return (0, *map(round, times.call_cycles), round(times.call_cycles[-1]))


def _engines(report: Report) -> Sequence[Data]:
    return [
        {
            "name": engine.name,
            "nodes": engine.nodes,
            "calls": engine.calls,
            "macs": engine.macs,
            "cycles": engine.cycles.estimated,
            "simulated_cycles": engine.cycles.simulated,
            "share": round(share, 6),
        }
        for engine, share in zip(report.engines, shares(report.engines), strict=True)
    ]


def _spans(times: EngineTimes, indices: Mapping[str, Sequence[int]]) -> Sequence[Data]:
    """The spans of the engines; none if the processor is the only one."""
    if len({span.engine for span in times.spans} - {CALLER}) < 2:
        return ()
    return [
        {
            "engine": span.engine,
            "activity": span.activity.value,
            "lower_cycles": round(span.lower_cycles),
            "upper_cycles": round(span.upper_cycles),
            "layers": [k for name in span.layers for k in indices.get(name, ())],
        }
        for span in times.spans
        if round(span.upper_cycles) > round(span.lower_cycles)
    ]


def _compiled_series(report: Report) -> Data:
    points = [
        {**encoded_fields(point), "command": str(report.command.selecting(point.ram_bytes))}
        for point in report.frontier
    ]
    return {"label": "compiled", "points": points}


def _series(
    found: FrontierReport,
    label: str,
    points: Sequence[FrontierPoint],
    command: CompileCommand,
    chosen: int | None,
) -> Data:
    return {
        "label": label,
        "points": [
            {
                "ram_bytes": point.ram_bytes,
                "cycles": point.cycles,
                "macs_executed": point.macs_executed,
                "chosen": index == chosen,
                "command": str(command.selecting(point.ram_bytes)),
                "arena_bytes": point.arena_bytes,
                "static_bytes": point.static_bytes,
                "live_bytes": point.live_bytes,
                "gap_bytes": point.gap_bytes,
                "calls": point.calls,
                "factor": round(found.factor(point), 4),
                "moved": {name: (one.read, one.written) for name, one in point.moved_bytes.items()},
                "cascades": cascade_words(point.cascades),
            }
            for index, point in enumerate(points)
        ],
    }


def _frontier_figures(found: FrontierReport) -> Sequence[Data]:
    first, last = found.choices[0], found.choices[-1]
    figures = [_point_figure("Least RAM", found, first), _point_figure("Fastest", found, last)]
    if found.chosen is None:
        note = f"budget {number(found.limit_bytes)} bytes"
        figures.insert(0, _figure("Chosen", "none", "fits", (note,)))
    else:
        figures.insert(0, _point_figure("Chosen", found, found.choices[found.chosen]))
    if found.streamed:
        figures.append(_point_figure("Least RAM, input streamed", found, found.streamed[0]))
    return figures


def _point_figure(label: str, found: FrontierReport, point: FrontierPoint) -> Data:
    above = f"{100 * found.slowdown(point):.3g} % above the fastest"
    notes = (kib(point.ram_bytes), above, f"{number(point.calls)} calls")
    return _figure(label, number(point.ram_bytes), "bytes", notes)


def _notes(report: Report) -> Sequence[str]:
    layers = report.model_layers
    found = [
        "Bytes are those of the regions that kernels access, not of load instructions. MACs are "
        "nominal and include the padding."
    ]
    if any(step.traffic for step in report.layers):
        found.append(
            "For accelerators whose backend states it, bytes moved are the actual traffic: whole "
            "channel packs, tables, repeated fetches."
        )
    measured = any(step.simulated_cycles is not None for step in report.layers)
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
    return found
