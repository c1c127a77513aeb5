"""Terminal output about a compilation and its layers, as renderables of rich.

Names are `Text`, never markup, so a name such as "[red]" is printed literally.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from penstock.reports.command import CompileCommand
from penstock.reports.formats import (
    counted,
    duration,
    kib,
    number,
    percent,
    printable,
    relative,
    short_names,
)
from penstock.reports.phrases import alternative_words, goal_words, verdicts
from penstock.reports.report import EngineWork, FallbackReport, Report, has_simulated, shares
from penstock.reports.tables import figure_table


def summary(
    report: Report, named: CompileCommand | None = None, verbose: bool = False
) -> RenderableType:
    """Return the totals of a report, its certificates, and commands for other results.

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
        *_order_lines(report),
        *_accuracy_lines(report),
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
        found = rung.note
        if rung.mismatches is not None:
            found = f"{number(rung.tensors)} tensors, {number(rung.mismatches)} mismatches"
        proven.add_row(Text(f"checked: {rung.step}"), Text(found, style))
    return Group(title, totals, proven, *_engine_tables(report), *_proposals(report, named))


def _assumed_lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """A warning line if the scales are arbitrary."""
    if report.numbers_assumed:
        yield (
            "numbers",
            "assumed",
            "scheduled as if int8; scales are arbitrary, outputs meaningless",
        )


def _plane_lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """A line for each input of which a streamed row is a whole channel."""
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


def _order_lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """A line for each input and output whose axes are not in the order of the model's file."""
    tensors = (("input", report.interface.inputs), ("output", report.interface.outputs))
    for role, x in ((role, x) for role, found in tensors for x in found if x.order):
        shape, in_file = (" x ".join(map(str, s)) for s in (x.shape, x.file_shape))
        yield (
            role,
            "",
            f'"{printable(x.name)}" has its channels last: {shape}, in the model\'s file {in_file}',
        )


def _accuracy_lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """Lines for each output that was evaluated."""
    for one in report.evaluations:
        label = "accuracy"
        subject = f' ("{printable(one.output)}", {number(one.compiled.samples)} samples)'
        for found, words, in_float in one.figures():
            beside = f"; in float {in_float}" if in_float else ""
            yield label, found, f"{words}{beside}{subject}"
            label = subject = ""


def _engine_tables(report: Report) -> Iterator[RenderableType]:
    if report.engines:
        yield Text("")
        yield _engine_table(report.engines)
    if report.left_to_cpu:
        yield Text("")
        yield _left_table(report.left_to_cpu)


def _engine_table(engines: Sequence[EngineWork]) -> Table:
    simulated = has_simulated(engines)
    headers = ("nodes", "calls", "MACs", "cycles\nestimated", "share")
    more = ("cycles\nsimulated",) if simulated else ()
    table = figure_table("engine", figures=(*headers, *more), show_edge=False)
    for engine, share in zip(engines, shares(engines), strict=True):
        counts = (engine.nodes, engine.calls, engine.macs, engine.cycles.estimated)
        cells = [*map(number, counts), percent(share)]
        cells += [number(engine.cycles.simulated)] if simulated else []
        table.add_row(Text(printable(engine.name)), *cells)
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
    table = figure_table(figures=(), show_edge=False)
    nodes = "1 node falls" if len(left) == 1 else f"{number(len(left))} nodes fall"
    table.add_column(f"{nodes} back\nto the CPU", overflow="fold")
    table.add_column("cycles\nestimated", justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for node in left:
        words = Text(printable(node.where)), number(node.cycles), Text(printable(node.why))
        table.add_row(*words)
    return table


def _class_lines(report: Report) -> tuple[tuple[str, str, str], ...]:
    counts: Counter[str] = Counter()
    for layer in report.requantisation:
        counts.update(layer.classes)
    if not counts:
        return ()
    classes = ", ".join(f"{letter} {number(counts[letter])}" for letter in sorted(counts))
    return (("channels", number(counts.total()), f"by class of requantisation: {classes}"),)


def _mac_note(report: Report) -> str:
    """The multiply-accumulates of the model, and those with constant results, if any."""
    macs = report.macs
    constant = f"; {number(macs.constant)} not executed: constant" if macs.constant else ""
    recomputed = (
        f"; F {macs.factor:.2f}: some are executed again or of added zeros"
        if macs.factor > 1
        else ""
    )
    return f"executed; model {number(macs.model)}{constant}{recomputed}"


def _constant_lines(report: Report) -> tuple[tuple[str, str, str], ...]:
    """The number of channels that are not computed because they are constant, and the bytes
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
    names = short_names(one.layer for one in report.portable_layers)
    for one in report.portable_layers:
        why = f"need {one.needs}" if one.needs else f"do not support this {one.operator}"
        yield (
            "portable C",
            f"{100 * one.share:.0f} %",
            f"of the estimated cycles: {names[one.layer]}; the {one.kernels} kernels {why}",
        )


def _frontier_words(report: Report) -> str:
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
    return f": {words}" if words else ""


def _cycle_lines(report: Report) -> tuple[tuple[str, str, str], ...]:
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


def _proposals(report: Report, named: CompileCommand | None) -> Iterator[RenderableType]:
    """Yield what other options yield, each with the command to copy, which is not wrapped."""
    found = tuple(alternative_words(report))
    command = report.command if named is None else named.with_rest(report.command)
    is_complete = report.ram_bytes_streamed_input is not None or command.is_of_layer
    if not found and report.smaller_kernels is None and is_complete:
        return
    yield Text("\nother options:")
    for words, other in zip(found, report.alternatives, strict=True):
        yield Text(words, "dim")
        whole = str(command.with_options(other.options))
        yield Text(f"    {whole}", no_wrap=True, overflow="ignore")
    if report.smaller_kernels is not None:
        saved = number(report.smaller_kernels.saved_bytes)
        yield Text(f"about {saved} bytes of flash less: slower kernels with smaller tables", "dim")
        whole = str(command.with_options(f"--kernels {report.smaller_kernels.kernels}"))
        yield Text(f"    {whole}", no_wrap=True, overflow="ignore")
    if not is_complete:
        yield Text("a streamed input was not planned: --plan-streaming", "dim")
