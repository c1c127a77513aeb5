"""Problem: malformed buffers are refused; the peak is a bound with its tick and buffers."""

import pytest

from penstock.errors import InternalError
from penstock.memory.problem import (
    LiveBuffer,
    PlacementProblem,
    live_peak,
    peak_live_bytes,
    shapes,
)


def test_the_peak_names_its_tick_and_its_buffers() -> None:
    problem = PlacementProblem(
        (LiveBuffer("a", 0, 3, 5), LiveBuffer("b", 2, 4, 7), LiveBuffer("c", 3, 6, 6))
    )
    peak = live_peak(problem)
    assert (peak.tick, peak.size_bytes, peak.names) == (3, 13, ("b", "c"))


def test_a_life_is_half_open_so_neighbours_in_time_do_not_add() -> None:
    assert (
        peak_live_bytes(PlacementProblem((LiveBuffer("a", 0, 2, 5), LiveBuffer("b", 2, 4, 7)))) == 7
    )


def test_the_topmost_buffer_needs_no_padding() -> None:
    buffers = (LiveBuffer("a", 0, 1, 5, alignment=4), LiveBuffer("b", 0, 1, 6, alignment=4))
    assert peak_live_bytes(PlacementProblem(buffers)) == 8 + 5  # b below, a above


def test_mixed_alignments_may_fill_each_others_padding() -> None:
    buffers = (LiveBuffer("a", 0, 1, 5, alignment=4), LiveBuffer("b", 0, 1, 3))
    assert peak_live_bytes(PlacementProblem(buffers)) == 8


def test_an_empty_problem_needs_nothing() -> None:
    assert peak_live_bytes(PlacementProblem(())) == 0


@pytest.mark.parametrize(
    ("buffer", "why"),
    [
        (("a", 3, 3, 1), "at least one tick"),
        (("a", 0, 1, 0), "at least one byte"),
        (("a", 0, 1, 1, 0), "alignment must be at least 1"),
        (("a", 0, 1, 1, 1, "b", -1), "must not be negative"),
        (("a", 0, 1, 1, 4, "b", 6), "distance must be aligned"),
        (("a", 0, 1, 1, 1, None, 6), "no distance"),
    ],
)
def test_a_malformed_buffer_is_refused(buffer: tuple[str, int, int, int], why: str) -> None:
    with pytest.raises(InternalError) as caught:
        LiveBuffer(*buffer)
    assert why in caught.value.why


def test_names_must_be_unique() -> None:
    with pytest.raises(InternalError, match="same name"):
        PlacementProblem((LiveBuffer("a", 0, 1, 1), LiveBuffer("a", 1, 2, 1)))


def test_a_shape_consists_of_an_anchor_and_its_tied_buffers() -> None:
    above, alone = LiveBuffer("above", 0, 2, 4, 1, "below", 4), LiveBuffer("alone", 0, 1, 9)
    below = LiveBuffer("below", 0, 1, 4)
    assert shapes((above, alone, below)) == ((alone,), (below, above))


@pytest.mark.parametrize("anchor", ["absent", "a", "tied"])
def test_an_anchor_must_be_there_and_untied(anchor: str) -> None:
    tied = LiveBuffer("tied", 0, 1, 1, anchor="free")
    with pytest.raises(InternalError, match=f"a is tied to {anchor}") as caught:
        PlacementProblem(
            (LiveBuffer("free", 1, 2, 1), tied, LiveBuffer("a", 2, 3, 1, anchor=anchor))
        )
    assert "not tied itself" in caught.value.why


def test_buffers_of_one_shape_must_not_overlap() -> None:
    low, high = LiveBuffer("low", 0, 2, 4), LiveBuffer("high", 1, 3, 4, 1, "low", 3)
    with pytest.raises(InternalError, match="of one shape overlap: low, high"):
        PlacementProblem((high, low))
    PlacementProblem((LiveBuffer("high", 2, 3, 4, 1, "low", 3), low))
    PlacementProblem((LiveBuffer("high", 1, 3, 4, 1, "low", 4), low))


def test_a_shape_raises_the_bound_to_its_height() -> None:
    row = LiveBuffer("row", 1, 2, 4, 1, "first", 20)
    assert peak_live_bytes(PlacementProblem((LiveBuffer("first", 0, 1, 4), row))) == 24
