"""Climb: the verification ladder of one model against one archive of ground truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock import api
from penstock.pipeline import Request
from penstock.reports.report import Checked


@dataclass(frozen=True, slots=True)
class Climb:
    """How every rung went, and the first difference in words."""

    archive: str
    rungs: tuple[Checked, ...]
    difference: str

    @property
    def mismatches(self) -> int:
        return sum(rung.mismatches for rung in self.rungs)


def climb(wanted: Request, archive: Path) -> Climb:
    """The ladder, walked with every set of the archive."""
    verified = api.verify(wanted, goldens=archive)
    firsts = (rung.comparison.first for rung in verified.rungs)
    difference = next((str(first) for first in firsts if first is not None), "")
    return Climb(archive.name, verified.report.verified, difference)
