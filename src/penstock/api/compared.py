"""`compare`: two results, or their recorded reports, side by side."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.api.compiled import Compiled
from penstock.api.ran import Ran
from penstock.api.verified import Verified
from penstock.errors import UsageError
from penstock.reports import comparison
from penstock.reports.comparison import ReportComparison
from penstock.reports.json_value import Json
from penstock.reports.report_file import RecordedReport, read_report, recorded_report

Reported = str | Path | Compiled | Ran | Verified
"""A result with a report, or a report.json, the output of --json, or an output directory."""


def compare(before: Reported, after: Reported) -> ReportComparison:
    """Compare two results or recorded reports, for example before and after an update.

    Each is a result of `compile`, `run`, `profile` or `verify`, a report.json, a file with the
    output of --json, or an output directory.  The comparison holds `figures`, each with `before`
    and `after`; the `layers` and `facts` that differ; whether runs have the `same_outputs`; and
    `worse`, the names of the totals that grew.

    Raises UsageError if one is not a report."""
    return comparison.compare(_recorded(before), _recorded(after))


def _recorded(one: object) -> RecordedReport:
    if isinstance(one, str | Path):
        return read_report(str(one))
    if isinstance(one, Compiled | Ran):
        record = one.as_json() if isinstance(one, Compiled) else one.recorded()
    elif isinstance(one, Verified):
        record = one.report.as_json()
    else:
        raise UsageError(
            "usage-147",
            f"this {type(one).__name__} has no report",
            where="penstock.compare",
            help="pass a result of compile, run, profile or verify, or the name of a report.json",
        )
    plain: Json = json.loads(json.dumps(record))
    return recorded_report(f"{one.report.model} for {one.report.target}", plain)
