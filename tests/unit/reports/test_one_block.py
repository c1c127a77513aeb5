"""The memory figure of an arena with a single block, which matplotlib draws differently."""

from __future__ import annotations

from small_compilation import of_steps, span

from penstock.reports.memory_picture import memory_svg


def test_a_single_block_has_its_title_too() -> None:
    svg = memory_svg(of_steps((span("only", "io", 0, 64, -1, 1),), 1))
    assert svg.count("<title>only: 64 bytes") == 1
