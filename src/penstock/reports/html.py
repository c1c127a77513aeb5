"""HTML reports: self-contained pages with totals, the memory figure and a table of layers.

A page loads no resources: style and figures are embedded, and there are no scripts. Equal reports
yield equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from penstock.reports import formats
from penstock.reports.engine_work import has_simulated, shares
from penstock.reports.goal import alternative_lines, goal_words
from penstock.reports.graph_figure import graph_svg, has_engines
from penstock.reports.memory_picture import memory_svg
from penstock.reports.paint import PROCESSOR, accelerator_colors
from penstock.reports.report import LayerReport, RamUsage, Report
from penstock.reports.resource_figure import resource_svg
from penstock.reports.row import Measured, has_limits, rows
from penstock.reports.timeline import Timeline
from penstock.reports.verdict import verdicts


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure of the page, with notes on its composition."""

    label: str
    value: str
    unit: str
    notes: tuple[str, ...]


def render_html(
    report: Report,
    layers: Sequence[LayerReport],
    timelines: Sequence[Timeline],
    measured: Sequence[Measured | None] | None,
    budget_bytes: int | None = None,
) -> bytes:
    """Return the page.

    `measured` contains the counts of a simulated core per layer, in the order of `layers`.
    `budget_bytes` is the maximum size of all memories.
    """
    lines = rows(layers, measured)
    has_cascades = any(layer.cascade is not None for layer in layers)
    offloads = has_engines(layers)
    return page(
        "report.html.j2",
        model=formats.printable(report.model),
        target=formats.printable(report.target),
        assumed=report.numbers_assumed,
        figures=_figures(report),
        ram=_ram_parts(report.ram_bytes),
        streamed=report.ram_bytes_streamed_input,
        measured_stack=report.stack_bytes_measured,
        verdicts=verdicts(report.optimality),
        frontier=report.frontier,
        goal=goal_words(report),
        alternatives=tuple(alternative_lines(report)),
        verified=report.verified,
        pictures=[memory_svg(timeline, budget_bytes) for timeline in timelines],
        rows=lines,
        largest_share=max((row.share for row in lines), default=0.0) or 1.0,
        extents=formats.extents,
        per_mac=formats.per_mac,
        has_measurements=bool(measured),
        has_limits=has_limits(lines),
        has_traffic=any(layer.traffic for layer in layers),
        share_or_none=formats.share_or_none,
        report_classes=bool(report.requantisation),
        has_cascades=has_cascades,
        graph=graph_svg(layers, timelines) if has_cascades or offloads else None,
        resources=resource_svg(layers),
        offloads=offloads,
        engines=tuple(zip(report.engines, shares(report.engines), strict=True)),
        has_simulated=has_simulated(report.engines),
        left=report.left_to_cpu,
        colors=accelerator_colors(layer.engine for layer in layers if layer.offloaded),
        processor_color=PROCESSOR,
        printable=formats.printable,
    )


def page(template: str, **holes: object) -> bytes:
    """Render a template. Values are escaped as text, never inserted as markup."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("penstock.reports"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    environment.filters |= {"number": formats.number, "percent": formats.percent}
    return environment.get_template(template).render(**holes).encode()


def framed(page: bytes) -> str:
    """Return a page as an iframe element for notebooks, so that their styles do not interact."""
    style = "width:100%;height:32rem;border:1px solid #d8dde2;background:#fff"
    return f'<iframe sandbox style="{style}" srcdoc="{escape(page.decode())}"></iframe>'


def _figures(report: Report) -> tuple[Figure, ...]:
    number = formats.number
    ram, flash, macs, cycles = report.ram_bytes, report.flash_bytes, report.macs, report.cycles
    code = "code not compiled" if flash.code is None else f"code {number(flash.code)}"
    shown = cycles.estimated if cycles.simulated is None else cycles.simulated
    return (
        Figure(
            "RAM",
            number(ram.total),
            "bytes",
            (f"arena {number(ram.arena)}", f"stack reserve {number(ram.stack)}"),
        ),
        Figure("Flash", number(flash.total), "bytes", (f"weights {number(flash.weights)}", code)),
        Figure("MACs", number(macs.executed), "executed", _mac_notes(report)),
        Figure(
            "Cycles",
            number(shown),
            "estimated" if cycles.simulated is None else "simulated",
            _cycle_notes(report),
        ),
    )


def _mac_notes(report: Report) -> tuple[str, ...]:
    """Return the notes below the multiply-accumulates."""
    macs = report.macs
    model = f"model {formats.number(macs.model)}"
    constant = f"constant {formats.number(macs.constant)}"
    return (model, constant) if macs.constant else (model,)


def _cycle_notes(report: Report) -> tuple[str, ...]:
    """Return the notes below the cycles: if simulated, the estimate and the instructions."""
    if report.cycles.simulated is None:
        return ("not simulated",)
    return (
        f"estimated {formats.number(report.cycles.estimated)}",
        f"instructions {formats.number(report.instructions.simulated)}",
    )


def _ram_parts(ram: RamUsage) -> tuple[tuple[str, int, str], ...]:
    """Return the parts of RAM: name, bytes, explanation."""
    return (
        ("arena", ram.arena, "the buffer that holds all tensors"),
        ("– io", ram.io, "inputs and outputs, inside the arena"),
        ("– scratch", ram.scratch, "temporary memory of kernels, inside the arena"),
        ("static", ram.static, "other variables of the model"),
        ("stack", ram.stack, "reserve"),
        ("total", ram.total, "arena + static + stack"),
    )
