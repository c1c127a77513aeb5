"""`compare`: two results, or their recorded reports, side by side."""

from __future__ import annotations

from pathlib import Path

from penstock.api.ran import Ran
from penstock.api.reported import Reported
from penstock.errors import UsageError
from penstock.reports import comparison
from penstock.reports.comparison import ReportComparison, StatedReport
from penstock.reports.report import report_json


def compare(before: str | Path | Reported, after: str | Path | Reported) -> ReportComparison:
    """Compare two results or recorded reports, for example before and after an update.

    Each is a result of `compile`, `run`, `profile` or `verify`, a report.json, a file with the
    output of --json, or an output directory.  The comparison holds `figures`, each with `before`
    and `after`; the `layers` and `facts` that differ; whether runs have the `same_outputs`; and
    `worse`, the names of the totals that grew.

    Raises UsageError if one is not a report."""
    return comparison.compare(_stated(before), _stated(after))


def _stated(one: object) -> StatedReport:
    if isinstance(one, str | Path):
        return StatedReport(str(one), report_json(str(one)))
    if isinstance(one, Ran):
        found = one.recorded()
    elif isinstance(one, Reported):
        found = one.as_json()
    else:
        raise UsageError(
            "usage-147",
            f"this {type(one).__name__} has no report",
            where="penstock.compare",
            help="pass a result of compile, run, profile or verify, or the name of a report.json",
        )
    return StatedReport(f"{one.report.model} for {one.report.target}", found)
