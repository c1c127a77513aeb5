"""Climb: the verification ladder of a model against an archive of goldens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock import api
from penstock.pipeline.request import Request
from penstock.reports.report import RungReport


@dataclass(frozen=True, slots=True)
class Climb:
    """The result of every rung, and the first difference as text."""

    archive: str
    rungs: tuple[RungReport, ...]
    difference: str

    @property
    def mismatches(self) -> int:
        return sum(rung.mismatches or 0 for rung in self.rungs)


def climb(wanted: Request, archive: Path) -> Climb:
    """Verifies a model with every set of the archive."""
    verified = api.verify(wanted, goldens=archive)
    firsts = (rung.comparison.first for rung in verified.rungs if rung.comparison)
    difference = next((str(first) for first in firsts if first is not None), "")
    return Climb(archive.name, verified.report.verified, difference)
