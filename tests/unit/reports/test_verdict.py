"""The phrases for certificates."""

from __future__ import annotations

import pytest

from penstock.reports import phrases
from penstock.reports.report import Optimality


@pytest.mark.parametrize(
    ("placement", "installed", "named"),
    [("optimal", False, False), (0.01, True, False), (0.01, False, True)],
)
def test_the_solver_is_named_where_it_may_help_and_is_not_installed(
    placement: str | float, installed: bool, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phrases, "is_installed", lambda: installed)
    order, partition, addresses = phrases.verdicts(Optimality("optimal", 0.5, placement))
    assert ("the extra `optimal`" in addresses.words) == named
    assert "`optimal`" not in order.words + partition.words
