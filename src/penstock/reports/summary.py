"""Terminal output about a compilation and its layers, as renderables of rich.

Names are `Text`, never markup, so a name such as "[red]" is printed literally.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from penstock.reports.command import CompileCommand
from penstock.reports.engine_work import EngineWork, FallbackReport, NodeLine, has_simulated, shares
from penstock.reports.formats import (
    counted,
    extents,
    kib,
    number,
    percent,
    printable,
    relative,
    short_names,
    striped,
)
from penstock.reports.frontier import FrontierPoint, FrontierReport
from penstock.reports.goal import goal_words
from penstock.reports.guidance import proposals
from penstock.reports.report import Report
from penstock.reports.times import duration, milliseconds
from penstock.reports.verdict import verdicts


def summary(
    report: Report, named: CompileCommand | None = None, verbose: bool = False
) -> RenderableType:
    """Return the totals of a report, its certificates, and commands for other results.

    named: the names of the model and of the target as the user has stated them; by default, those
        of the report.
    verbose: whether classes of requantisation and certificates that prove nothing are listed."""
    title = Text.assemble((printable(report.model), "bold"), f" for {printable(report.target)}")
    if report.version:
        title.append(f", by {report.compiler}", "dim")
    totals = Table.grid(Column(), Column(justify="right"), Column(), padding=(0, 2, 0, 0))
    for label, value, note in (
        ("RAM", number(report.ram_bytes.total), _ram_note(report)),
        ("flash", number(report.flash_bytes.total), _flash_note(report)),
        ("MACs", number(report.macs.executed), _mac_note(report)),
        *_cycle_lines(report),
        *(_class_lines(report) if verbose else ()),
        *_portable_lines(report),
        *_constant_lines(report),
        *_assumed_lines(report),
        *_plane_lines(report),
    ):
        totals.add_row(Text(label), Text(value, "bold"), Text(note, "dim"))
    totals.add_row(Text("frontier"), Text(""), Text(_frontier_words(report), "dim"))
    totals.add_row(Text("chosen"), Text(""), Text(goal_words(report), "dim"))
    proven = Table.grid(padding=(0, 2, 0, 0))
    for verdict in verdicts(report.optimality):
        if verbose or verdict.is_proof:
            proven.add_row(Text(verdict.subject), Text(verdict.words, "dim"))
    for rung in report.verified:
        style = "bold red" if rung.mismatches else "dim"
        found = "not run"
        if rung.mismatches is not None:
            found = f"{number(rung.tensors)} tensors, {number(rung.mismatches)} mismatches"
        proven.add_row(Text(f"checked: {rung.step}"), Text(found, style))
    return Group(title, totals, proven, *_engine_tables(report), *proposals(report, named))


def _assumed_lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield a warning line if the scales are arbitrary."""
    if report.numbers_assumed:
        yield (
            "numbers",
            "assumed",
            "scheduled as if int8; scales are arbitrary, outputs meaningless",
        )


def _plane_lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield a line for each input of which a streamed row is a whole channel."""
    for x in report.interface.inputs:
        if x.channels_first:
            height, width = x.shape[2:]
            yield (
                "input",
                "",
                f'"{printable(x.name)}" is channels-first: a streamed row (--stream-input) is a '
                f"plane of {height} x {width} elements; for ONNX, --channels-last "
                f"{shlex.quote(printable(x.name))} makes it a row of the image",
            )


def _engine_tables(report: Report) -> Iterator[RenderableType]:
    """With accelerators, yield a table of engines and a table of CPU fallbacks."""
    if report.engines:
        yield Text("")
        yield _engine_table(report.engines)
    if report.left_to_cpu:
        yield Text("")
        yield _left_table(report.left_to_cpu)


def _engine_table(engines: Sequence[EngineWork]) -> Table:
    """Return a table with the work of each engine, and its fraction of the estimated cycles."""
    simulated = has_simulated(engines)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("engine")
    for header in ("nodes", "calls", "MACs", "cycles\nestimated", "share"):
        table.add_column(header, justify="right", no_wrap=True)
    if simulated:
        table.add_column("cycles\nsimulated", justify="right", no_wrap=True)
    for engine, share in zip(engines, shares(engines), strict=True):
        counts = (engine.nodes, engine.calls, engine.macs, engine.cycles.estimated)
        cells = [*map(number, counts), percent(share)]
        cells += [number(engine.cycles.simulated)] if simulated else []
        table.add_row(Text(printable(engine.name)), *cells)
    return table


def node_table(nodes: Sequence[NodeLine]) -> Table:
    """Return a table of nodes. Long names are shortened."""
    names = short_names(node.name for node in nodes)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for header in ("operator", "output", "engine", "name"):
        table.add_column(header, overflow="ellipsis")
    for node in nodes:
        words = (printable(node.kind), extents(node.shape), printable(node.engine))
        table.add_row(*map(Text, words), names[node.name])
    return table


def engine_lines(engines: Sequence[EngineWork]) -> Iterator[Text]:
    """With accelerators, yield one line per engine."""
    for engine in engines:
        name = printable(engine.name)
        if engine.nodes:
            work = f"{counted(engine.nodes, 'node')} in {counted(engine.calls, 'call')}"
            yield Text(f"{name} runs {work}")
        else:
            yield Text(
                f"{name} runs no node of this model: `penstock show MODEL --nodes --accelerator "
                f"{name}` lists the nodes, `penstock compile` the reasons",
                "bold red",
            )


def _left_table(left: Sequence[FallbackReport]) -> Table:
    """Return a table of CPU fallbacks with their cycles and reasons."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    nodes = "1 node falls" if len(left) == 1 else f"{number(len(left))} nodes fall"
    table.add_column(f"{nodes} back\nto the CPU", overflow="fold")
    table.add_column("cycles\nestimated", justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for node in left:
        words = Text(printable(node.where)), number(node.cycles), Text(printable(node.why))
        table.add_row(*words)
    return table


def choice_table(choices: FrontierReport, named: CompileCommand) -> RenderableType:
    """Return a table of the points of the front with the selected one marked, and, if it was
    planned, a table of the points with a streamed input.

    named: model and target as the user named them, for the command that is proposed."""
    title = Text.assemble((printable(choices.model), "bold"), f" for {printable(choices.target)}")
    shown: list[RenderableType] = [title, _point_table(choices, choices.choices, choices.chosen)]
    shown.append(Text(_limit_words(choices), "dim"))
    if choices.streamed:
        shown.append(Text("\nwith the input streamed (--stream-input):"))
        shown.append(_point_table(choices, choices.streamed, None))
    least = named.with_rest(choices.command).selecting(choices.choices[0].ram_bytes)
    shown.append(Text("to compile the first point (--sram selects one):", "dim"))
    shown.append(Text(f"    {least}", no_wrap=True, overflow="ignore"))
    return Group(*shown)


def _point_table(
    choices: FrontierReport, points: Sequence[FrontierPoint], chosen: int | None
) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("")
    elsewhere = any(point.static_bytes for point in points)
    others = ("other\nmemories",) if elsewhere else ()
    clock_hz = choices.clock_hz
    timed = () if clock_hz is None else (f"ms at\n{clock_hz / 1e6:g} MHz",)
    for header in (
        "RAM",
        "KiB",
        "arena",
        "live",
        *others,
        "cycles",
        *timed,
        "above\nfastest",
        "calls",
        "F",
    ):
        table.add_column(header, justify="right", no_wrap=True)
    for moved in points[0].moved:
        table.add_column(f"moved\n{moved.memory}", justify="right", no_wrap=True)
    table.add_column("cascades: layers×rows")
    for k, point in enumerate(points):
        cells = (
            number(point.ram_bytes),
            kib(point.ram_bytes).removesuffix(" KiB"),
            number(point.arena_bytes),
            number(point.live_bytes),
            *((number(point.static_bytes),) if elsewhere else ()),
            number(point.cycles),
            *(() if clock_hz is None else (milliseconds(point.cycles, clock_hz),)),
            f"{100 * choices.slowdown(point):.4f} %",
            number(point.calls),
            f"{choices.factor(point):.2f}",
            *(number(moved.total_bytes) for moved in point.moved),
            striped(point.cascades),
        )
        table.add_row(">" if k == chosen else "", *cells, style="bold" if k == chosen else "")
    return table


def _limit_words(choices: FrontierReport) -> str:
    """Describe the point that the budget selects."""
    limit = "1 byte" if choices.limit_bytes == 1 else f"{number(choices.limit_bytes)} bytes"
    if choices.chosen is None:
        return f"nothing fits into {limit}"
    within = "" if choices.command.sram_bytes is not None else f", in {limit}"
    return f">: {goal_words(choices)}{within}"


def _class_lines(report: Report) -> tuple[tuple[str, str, str], ...]:
    """Return the number of channels per requantisation class."""
    counts: Counter[str] = Counter()
    for layer in report.requantisation:
        counts.update(layer.classes)
    if not counts:
        return ()
    classes = ", ".join(f"{letter} {number(counts[letter])}" for letter in sorted(counts))
    return (("channels", number(counts.total()), f"by class of requantisation: {classes}"),)


def _mac_note(report: Report) -> str:
    """Return the multiply-accumulates of the model, and those with constant results, if any."""
    macs = report.macs
    constant = f"; {number(macs.constant)} not executed: constant" if macs.constant else ""
    recomputed = f"; F {macs.factor:.2f}: some are executed again" if macs.factor > 1 else ""
    return f"executed; model {number(macs.model)}{constant}{recomputed}"


def _constant_lines(report: Report) -> tuple[tuple[str, str, str], ...]:
    """Return the number of channels that are not computed because they are constant, and the bytes
    saved."""
    skipped = [found for found in report.constant_channels if found.skipped]
    if not skipped:
        return ()
    channels = sum(len(found.channels) for found in skipped)
    saved = counted(sum(found.dropped_bytes for found in skipped), "byte")
    of = f"of {counted(len(skipped), 'layer')}"
    words = f"channel {of} does" if channels == 1 else f"channels {of} do"
    note = f"{words} not depend on the input: {saved} of weights dropped"
    others = len(report.constant_channels) - len(skipped)
    if others:
        note += f"; those of {counted(others, 'layer')} more are computed"
    return (("constant", number(channels), note),)


def _portable_lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield a line for each layer that takes many cycles in portable C, and why it runs there."""
    names = short_names(one.layer for one in report.portable_layers)
    for one in report.portable_layers:
        why = f"need {one.needs}" if one.needs else f"do not support this {one.operator}"
        yield (
            "portable C",
            f"{100 * one.share:.0f} %",
            f"of the estimated cycles: {names[one.layer]}; the {one.kernels} kernels {why}",
        )


def _frontier_words(report: Report) -> str:
    """Describe the extent of the frontier, and the cascades of the selected point."""
    first, last = report.frontier[0], report.frontier[-1]
    above = relative(first.cycles, max(1, last.cycles))
    points = f"{len(report.frontier)} points, {number(first.ram_bytes)} bytes ({above} cycles)"
    reach = f"{points} to {number(last.ram_bytes)}" if len(report.frontier) > 1 else "1 point"
    calls = number(sum(cascade.calls for cascade in report.cascades))
    cascades = sum(1 for cascade in report.cascades if cascade.layers > 1)
    alone = len(report.cascades) - cascades
    parts = ["1 cascade" if cascades == 1 else f"{cascades} cascades"] if cascades else []
    if alone:
        parts.append(
            "1 single layer in stripes" if alone == 1 else f"{alone} single layers in stripes"
        )
    here = f"{' and '.join(parts)}, {calls} calls" if parts else "all layers run whole"
    return f"{reach}; selected: {here}"


def _ram_note(report: Report) -> str:
    ram = report.ram_bytes
    inside = f"io {number(ram.io)}, scratch {number(ram.scratch)} inside"
    parts = [f"bytes ({kib(ram.total)}): arena {number(ram.arena)} ({inside})"]
    if ram.static:
        parts.append(f"static {number(ram.static)}")
    apart = (f"; {memory} {number(size)}" for memory, size in report.free_bytes.items())
    measured = report.stack_bytes_measured
    used = f" ({'not measured' if measured is None else f'{number(measured)} used'})"
    return " + ".join([*parts, f"stack {number(ram.stack)}{used}"]) + "".join(apart)


def _flash_note(report: Report) -> str:
    flash = report.flash_bytes
    code = "code not compiled" if flash.code is None else f"code {number(flash.code)}"
    model = f" (model: {number(flash.model)})" if flash.model else ""
    return f"bytes ({kib(flash.total)}): weights {number(flash.weights)}{model}, {code}"


def _and(words: str) -> str:
    """Return words as a continuation of a note."""
    return f": {words}" if words else ""


def _cycle_lines(report: Report) -> tuple[tuple[str, str, str], ...]:
    """Return label, value and note of the lines on cycles and instructions."""
    estimated, clock_hz = number(report.cycles.estimated), report.clock_hz
    model = report.estimated_note
    if report.cycles.simulated is None:
        partly = "; only the processor is simulated" if has_simulated(report.engines) else ""
        time = _and(duration(report.cycles.estimated, clock_hz))
        return (("cycles", estimated, f"estimated{model}{time}{partly}"),)
    simulated = number(report.cycles.simulated)
    time = _and(duration(report.cycles.simulated, clock_hz))
    return (
        ("cycles", simulated, f"simulated{time}; estimated {estimated}{model}"),
        ("instructions", number(report.instructions.simulated), "simulated"),
    )
