"""The picture of an arena with a single block, which matplotlib draws in another way."""

from __future__ import annotations

from penstock.reports.memory_picture import memory_svg
from penstock.reports.report import Span


def test_a_single_block_has_its_title_too() -> None:
    svg = memory_svg((Span("only", "io", 0, 64, -1, 1),), steps=1)
    assert svg.count("<title>only: 64 bytes") == 1
