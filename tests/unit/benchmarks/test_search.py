"""The search benchmark: contents of a lap, limits of laps, and the plot."""

from __future__ import annotations

from pathlib import Path

from benchmarks.search import LIMIT_MB, Lap, _draw, _too_much, branches, chain, lap_of


def test_a_lap_counts_the_parts_and_the_work() -> None:
    short, long = lap_of(chain(4)), lap_of(chain(8))
    assert (short.parts, long.parts) == (4, 8)
    assert 0 < short.calls < long.calls
    assert short.points > 1
    assert short.seconds > 0
    assert short.peak_mb > 0


def test_branches_have_two_convolutions_each_and_sums() -> None:
    kinds = [node.kind for node in branches(3).nodes]
    assert (kinds.count("Conv2D"), kinds.count("Add")) == (12, 4)


def test_a_lap_is_too_much_above_its_seconds_or_the_memory() -> None:
    lap = Lap(parts=1, points=1, seconds=2.0, peak_mb=LIMIT_MB, calls=1)
    assert not _too_much(lap, 2.0)
    assert not _too_much(lap, None)
    assert _too_much(lap, 1.9)
    assert _too_much(Lap(1, 1, 0.0, LIMIT_MB + 1, 1), None)


def test_the_growth_is_drawn(tmp_path: Path) -> None:
    _draw({50: 0.5, 100: 1.0}, tmp_path / "growth.svg")
    assert "parts in a chain" in (tmp_path / "growth.svg").read_text()
