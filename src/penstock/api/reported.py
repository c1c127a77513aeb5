"""What has a report: the results of `compile`, `run`, `profile` and `verify`, and report.json."""

from __future__ import annotations

from pathlib import Path

from penstock.brief import Brief, shortened
from penstock.frozen import frozen
from penstock.reports.codec import Json
from penstock.reports.phrases import totals
from penstock.reports.report import Report
from penstock.reports.report import read_report as report_of_file


@frozen(repr=False)
class Reported(Brief):
    """What has a report, which contains everything that is shown of it.

    report: the figures, as report.json contains them."""

    report: Report

    def __repr__(self) -> str:
        return shortened(f"{type(self).__name__}({totals(self.report)})")

    def _repr_html_(self) -> str:
        from penstock.reports.html import framed  # takes long to import

        return framed(self.page())

    def page(self) -> bytes:
        """The report as HTML."""
        from penstock.reports.html import render_html

        return render_html(self.report)

    def as_json(self) -> dict[str, Json]:
        """The report with layers and their steps, as report.json contains it."""
        return self.report.as_json()

    def model_layer_rows(self) -> list[dict[str, Json]]:
        """The layers of the model as JSON objects, with simulated figures where there are any;
        `short_name` is unique where names allow it."""
        return [layer.as_json() for layer in self.report.model_layers]

    def layer_rows(self) -> list[dict[str, Json]]:
        """The steps of the layers as JSON objects, with simulated figures where there are any."""
        return [step.as_json() for step in self.report.layers]


def read_report(path: str | Path) -> Reported:
    """Read a report.json, a file with the output of --json, or the one in an output directory.

    It shows what the result shows that wrote it, also in a notebook.

    Raises UsageError if it is no report, or one of an older version that lacks a key."""
    return Reported(report_of_file(str(path)))
