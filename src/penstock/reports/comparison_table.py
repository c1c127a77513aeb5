"""Text of `penstock compare`, as renderables of rich."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich import box
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from penstock.reports.comparison import FigureChange, LayerChange, ReportComparison
from penstock.reports.formats import ABSENT, number, printable, relative, short_names
from penstock.reports.report_file import RecordedLayer


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
    """Yield a table of the layers that differ, or a line."""
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


def _kernels(layer: RecordedLayer | None) -> str:
    return ABSENT if layer is None else printable(", ".join(layer.kernels))


def _change(figure: FigureChange) -> str:
    if figure.before is None or figure.after is None:
        return ABSENT
    if not figure.comparable:
        return "one without code"
    return relative(figure.after, figure.before) if figure.differs else "="


def _verdict(found: ReportComparison) -> Iterator[RenderableType]:
    """Yield lines on the outputs and on what is worse."""
    if found.same_outputs is None:
        yield Text("outputs: not compared, only the output of run --json records them", "dim")
    else:
        yield Text("outputs: equal") if found.same_outputs else Text("outputs: differ", "bold red")
    if found.worse:
        yield Text(f"worse: {', '.join(found.worse)}", "bold")
    else:
        yield Text("nothing is worse")
