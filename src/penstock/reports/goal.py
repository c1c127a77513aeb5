"""The goal that selected a schedule, and the results of other options, as phrases."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.reports.formats import change, number, relative
from penstock.reports.frontier import FrontierReport
from penstock.reports.report import Report
from penstock.reports.times import duration

GOALS = {
    "speed": "the fastest that fits",
    "balanced": "the least RAM within 1 % of the fastest that fits",
    "size": "the least RAM, compiled with -Os",
}
"""What each goal of `--optimize` selects."""


def totals(report: Report) -> str:
    """Return model, target, RAM and cycles in one line."""
    simulated = report.cycles.simulated
    kind = "estimated" if simulated is None else "simulated"
    cycles = report.cycles.estimated if simulated is None else simulated
    time = duration(cycles, report.clock_hz)
    words = f"{number(cycles)} cycles {kind}" + (f" ({time})" if time else "")
    ram = f"RAM {number(report.ram_bytes.total)} bytes"
    return f"{report.model} for {report.target}: {ram}, {words}"


def goal_words(report: Report | FrontierReport) -> str:
    """Return the rule that selected the point, and where it comes from if the user has stated only
    a budget."""
    words, budget_bytes = GOALS[report.optimize], report.command.sram_bytes
    if budget_bytes is not None and report.optimize != "size":
        words += f" into {number(budget_bytes)} bytes"
    words += f" (--optimize {report.optimize}"
    if budget_bytes is not None and report.command.optimize is None:
        words += ", since --sram is given; balanced is up to 1 % slower"
    return f"{words})"


def alternative_words(report: Report) -> Iterator[str]:
    """Yield the results of other options, relative to the selected point."""
    for other in report.alternatives:
        saved = change(other.ram_bytes, report.ram_bytes.total)
        estimated = report.cycles.estimated
        same = other.cycles == estimated
        cycles = "same" if same else relative(other.cycles, estimated)
        given = f", if {other.condition}" if other.condition else ""
        yield f"{number(other.ram_bytes)} bytes ({saved}), {cycles} cycles{given}"
