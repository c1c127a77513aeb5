"""What reports say in words: goals, results of other options, certificates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.frozen import frozen
from penstock.memory.solver import is_installed
from penstock.reports.formats import change, duration, number, relative, short_names
from penstock.reports.report import Optimality, Report

if TYPE_CHECKING:
    from penstock.reports.frontier import FrontierReport

# Larger proved gaps are not shown, because so weak a bound is not useful. report.json contains the
# number in any case.
MOST_TELLING_GAP = 0.5
# What each goal of `--optimize` selects.
GOALS = {
    "speed": "the fastest that fits",
    "balanced": "the least RAM within 1 % of the fastest that fits",
    "size": "the least RAM, compiled with -Os",
}


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


def kernel_words(report: Report) -> Iterator[str]:
    """Yield a sentence for each kernel that competed for a layer of the processor."""
    names = short_names(one.layer for one in report.competing_kernels)
    for one in report.competing_kernels:
        end = f"loses by {number(one.lost_by)}" if one.lost_by else "runs"
        yield f"kernel of {names[one.layer]}: {one.kernel}, {number(one.cycles)} cycles, {end}"


def alternative_words(report: Report) -> Iterator[str]:
    """Yield the results of other options, relative to the selected point."""
    for other in report.alternatives:
        saved = change(other.ram_bytes, report.ram_bytes.total)
        estimated = report.cycles.estimated
        same = other.cycles == estimated
        cycles = "same" if same else relative(other.cycles, estimated)
        given = f", if {other.condition}" if other.condition else ""
        yield f"{number(other.ram_bytes)} bytes ({saved}), {cycles} cycles{given}"


@frozen
class CertificateVerdict:
    """The proved quality of one decision of the compiler, as a phrase; `is_proof` is False if
    nothing is proved."""

    subject: str
    words: str
    is_proof: bool


def verdicts(optimality: Optimality) -> tuple[CertificateVerdict, ...]:
    order, partition, placement = optimality.order, optimality.partition, optimality.placement
    return (
        CertificateVerdict(
            "execution order",
            words(order, "no other order of whole layers needs less memory"),
            proves(order),
        ),
        CertificateVerdict(
            "partition into cascades",
            words(partition, "no other cascades of the searched orders have a lower peak"),
            proves(partition),
        ),
        CertificateVerdict(
            "addresses",
            words(placement, "no other placement of these buffers needs less memory")
            + _remedy(placement),
            proves(placement),
        ),
    )


def proves(certificate: str | float) -> bool:
    """Return whether a certificate proves anything useful."""
    if isinstance(certificate, str):
        return certificate == "optimal"
    return 0.0 <= certificate <= MOST_TELLING_GAP


def _remedy(placement: str | float) -> str:
    """Return what may improve a placement that is not proved optimal: the constraint solver, if it
    is not installed."""
    if placement == "optimal" or is_installed():
        return ""
    return "; the extra `optimal` installs a solver that may find a better one"


def words(certificate: str | float, claim: str) -> str:
    """Return a certificate as a phrase. `claim` is the statement that "optimal" implies.

    >>> words("optimal", "nothing is below"), words(0.031, "")
    ('proved optimal: nothing is below', 'at most 3.1 % above a proved lower bound')
    >>> words(8.14, "")
    'nothing is proved'
    """
    if certificate == "optimal":
        return f"proved optimal: {claim}"
    if isinstance(certificate, str) or not proves(certificate):
        return "nothing is proved"
    return (
        f"at most {max(0.1, math.ceil(1000 * certificate) / 10):,.1f} % above a proved lower bound"
    )
