"""Tables for the terminal, as renderables of rich: nodes, frontiers, comparisons, rungs, scans.

Names are `Text`, never markup, so a name such as "[red]" is printed literally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from penstock.frozen import frozen
from penstock.reports.command import CompileCommand
from penstock.reports.comparison import FigureChange, LayerChange, LayerFigures, ReportComparison
from penstock.reports.formats import (
    ABSENT,
    extents,
    kib,
    milliseconds,
    number,
    printable,
    relative,
    short_names,
)
from penstock.reports.frontier import FrontierPoint, FrontierReport
from penstock.reports.layer import NodeLine
from penstock.reports.partitions import PARTITION_HEADS, PartitionsReport, partition_cells
from penstock.reports.phrases import goal_words
from penstock.reports.report import RungReport, cascade_words
from penstock.reports.scan import GOOD_VERDICTS, CauseCount, Scanned, Verdict

# What the totals say of the models with a verdict, before their number.
_TOTALS = {
    Verdict.COMPILES: "compile",
    Verdict.PASSES: "pass the stages up to `{}`",
    Verdict.REFUSED: "do not compile",
    Verdict.DIFFERS: "differ from the reference",
    Verdict.UNVERIFIED: "compile, but could not be verified",
    Verdict.INTERNAL: "internal error",
    Verdict.STOPPED: "not finished (--time-limit)",
    Verdict.LEFT_OUT: "left out (--min-operators)",
}


def figure_table(*texts: str, figures: Iterable[str], show_edge: bool = True) -> Table:
    """Return a table with columns of text and, after them, columns of figures."""
    table = Table(
        *texts, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=show_edge
    )
    for header in figures:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def node_table(nodes: Sequence[NodeLine]) -> Table:
    """Return a table of nodes. Long names are shortened."""
    names = short_names(node.name for node in nodes)
    table = figure_table(figures=(), show_edge=False)
    for header in ("operator", "output", "engine", "name"):
        table.add_column(header, overflow="ellipsis")
    for node in nodes:
        words = (printable(node.kind), extents(node.shape), printable(node.engine))
        table.add_row(*map(Text, words), names[node.name])
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


def partition_table(found: PartitionsReport) -> RenderableType:
    """Return a table of the partitions of a network."""
    title = Text.assemble((printable(found.model), "bold"), f" for {printable(found.target)}")
    table = figure_table("partition", figures=PARTITION_HEADS)
    for one in found.partitions:
        table.add_row(one.name, *partition_cells(found, one))
    return Group(title, table)


def _point_table(
    choices: FrontierReport, points: Sequence[FrontierPoint], chosen: int | None
) -> Table:
    elsewhere = any(point.static_bytes for point in points)
    others = ("other\nmemories",) if elsewhere else ()
    clock_hz = choices.clock_hz
    timed = () if clock_hz is None else (f"ms at\n{clock_hz / 1e6:g} MHz",)
    moved = (f"moved\n{memory}" for memory in points[0].moved_bytes)
    headers = (
        *("RAM", "KiB", "arena", "live", *others, "cycles", *timed),
        *("above\nfastest", "calls", "F", *moved),
    )
    table = figure_table("", figures=headers)
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
            *(number(moved.total) for moved in point.moved_bytes.values()),
            cascade_words(point.cascades),
        )
        table.add_row(">" if k == chosen else "", *cells, style="bold" if k == chosen else "")
    return table


def _limit_words(choices: FrontierReport) -> str:
    limit = "1 byte" if choices.limit_bytes == 1 else f"{number(choices.limit_bytes)} bytes"
    if choices.chosen is None:
        return f"nothing fits into {limit}"
    within = "" if choices.command.sram_bytes is not None else f", in {limit}"
    return f">: {goal_words(choices)}{within}"


def comparison_table(found: ReportComparison) -> RenderableType:
    """Return how the requests differ, the figures of both reports, what else differs, and a
    verdict."""
    table = Table(
        Column(""),
        Column("before", justify="right"),
        Column("after", justify="right"),
        Column("change", justify="right"),
        Column(""),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for figure in found.figures:
        if figure.before is not None or figure.after is not None:
            mark = "worse" if figure.name in found.worse else ""
            table.add_row(
                figure.name,
                number(figure.before),
                number(figure.after),
                _change(figure),
                mark,
                style="bold" if figure.differs else "dim",
            )
    others = {key: pair for key, pair in found.facts.items() if key not in found.requests}
    return Group(
        *_request_lines(found), table, *_fact_lines(others), *_layer_tables(found), *_verdict(found)
    )


def _request_lines(found: ReportComparison) -> Iterator[Text]:
    """Yield what was requested differently, which concerns every figure below."""
    if found.requests:
        named = [f"{key}s" for key in found.requests if key != "command"] or ["options"]
        yield Text(f"these reports have different {' and '.join(named)}:", "bold yellow")
        yield from _fact_lines(found.requests)


def _fact_lines(facts: Mapping[str, tuple[str | None, str | None]]) -> Iterator[Text]:
    for key, (before, after) in facts.items():
        yield Text(key)
        yield Text(f"  before  {_fact(before)}")
        yield Text(f"  after   {_fact(after)}")


def _fact(text: str | None) -> str:
    return "not stated by this report" if text is None else printable(text) or ABSENT


def _layer_tables(found: ReportComparison) -> Iterator[RenderableType]:
    if found.layers is None:
        yield Text("layers: not compared, because at least one report lists none", "dim")
    elif not found.layers:
        yield Text("layers: no difference")
    else:
        yield _layer_table(found.layers)


def _layer_table(layers: tuple[LayerChange, ...]) -> Table:
    table = Table(
        Column("layers that differ", overflow="fold"), box=box.SIMPLE_HEAD, pad_edge=False
    )
    for header in ("cycles\nbefore", "after", "change", "calls\nbefore", "after"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("kernel", overflow="fold")
    names = short_names(layer.name for layer in layers)
    for layer in layers:
        calls = (
            ABSENT if one is None else number(one.calls) for one in (layer.before, layer.after)
        )
        cycles = layer.cycles
        figures = number(cycles.before), number(cycles.after), _change(cycles)
        table.add_row(Text(names[layer.name]), *figures, *calls, Text(_kernel_words(layer)))
    return table


def _kernel_words(layer: LayerChange) -> str:
    before, after = map(_kernels, (layer.before, layer.after))
    return before if before == after else f"{before} -> {after}"


def _kernels(layer: LayerFigures | None) -> str:
    return ABSENT if layer is None else printable(", ".join(layer.kernels))


def _change(figure: FigureChange) -> str:
    if figure.before is None or figure.after is None:
        return ABSENT
    if not figure.comparable:
        return "one without code"
    return relative(figure.after, figure.before) if figure.differs else "="


def _verdict(found: ReportComparison) -> Iterator[RenderableType]:
    if found.same_outputs is None:
        yield Text("outputs: not compared, only the output of run --json records them", "dim")
    else:
        yield Text("outputs: equal") if found.same_outputs else Text("outputs: differ", "bold red")
    if found.worse:
        yield Text(f"worse: {', '.join(found.worse)}", "bold")
    else:
        yield Text("nothing is worse")


def ladder_table(rungs: Iterable[RungReport]) -> Table:
    """Return a table of the rungs of the verification ladder."""
    table = figure_table("rung", figures=("tensors", "elements", "mismatches"))
    table.add_column("")
    for rung in rungs:
        was_run = rung.mismatches is not None
        counts = (rung.tensors, rung.elements, rung.mismatches)
        style = "bold red" if rung.error or rung.mismatches else ""
        cells = (number(count if was_run else None) for count in counts)
        table.add_row(Text(rung.step), *cells, Text(rung.note), style=style)
    return table


def verdict_counts(records: Sequence[Scanned]) -> Counter[Verdict]:
    """The number of models by verdict; zero for verdicts that no model has."""
    return Counter(record.verdict for record in records)


@frozen
class ModelRows:
    """The table of models, printed row by row: its widths follow from what is known before the
    scan.

    names: the paths of all models.
    stop_after: the last stage that runs; None: all.
    verify: the models are verified, too."""

    names: Sequence[str]
    stop_after: str | None
    verify: bool

    def row(self, record: Scanned, console_width: int, *, heading: bool) -> Table | None:
        """The row of a model with its verdict and causes, below the heading if it is the first;
        None if the model was left out."""
        if record.verdict is Verdict.LEFT_OUT:
            return None
        longest = max(cell_len(printable(name)) for name in self.names) + len(" (copies: 1)")
        table = Table(
            Column("model", overflow="fold", width=min(longest, console_width * 2 // 5)),
            Column("operators", justify="right", width=len("operators")),
            Column("verdict", width=max(map(len, self._verdicts()))),
            Column("causes", overflow="fold", min_width=24),
            box=box.SIMPLE_HEAD,
            show_edge=False,
            show_header=heading,
        )
        copies = f" (copies: {len(record.copies)})" if record.copies else ""
        table.add_row(
            Text(printable(record.path) + copies),
            Text(ABSENT if record.operators is None else str(record.operators)),
            Text(self._verdict(record.verdict), "" if record.verdict in GOOD_VERDICTS else "bold"),
            Text(printable("; ".join(found.cause for found in record.obstacles))),
        )
        return table

    def _verdict(self, verdict: Verdict) -> str:
        passes = verdict is Verdict.PASSES
        return f"{verdict.value} {self.stop_after}" if passes else verdict.value

    def _verdicts(self) -> tuple[str, ...]:
        """The verdicts that the column is wide enough for; it wraps others."""
        frequent = (Verdict.PASSES, Verdict.REFUSED, *((Verdict.DIFFERS,) if self.verify else ()))
        return tuple(map(self._verdict, frequent))


def cause_table(causes: Sequence[CauseCount]) -> Table:
    """One row per cause, with an example."""
    table = Table(
        Column("models", justify="right"),
        Column("alone", justify="right"),
        Column("cause", overflow="fold"),
        Column("code"),
        Column("example", overflow="fold"),
        box=box.SIMPLE_HEAD,
        caption="models: stopped by this cause; alone: by no other cause that is known",
    )
    for cause in causes:
        table.add_row(
            Text(str(len(cause.models)), "bold"),
            Text(str(len(cause.alone))),
            Text(printable(cause.cause)),
            Text(cause.example.code),
            Text(printable(cause.models[0]), "dim"),
        )
    return table


def scan_totals(records: Sequence[Scanned], stop_after: str | None = None) -> str:
    """How many models have each verdict, in one line.

    stop_after: the last stage that ran; None: all."""
    found = verdict_counts(records)
    scanned = len(records) - found[Verdict.LEFT_OUT]
    words = [
        f"{text.format(stop_after)}: {found[verdict]}"
        for verdict, text in _TOTALS.items()
        if found[verdict]
    ]
    copies = sum(len(record.copies) for record in records)
    if copies:
        words.append(f"copies, not counted: {copies}")
    return "; ".join((f"models: {scanned}", *words))
