"""Problem: malformed buffers are refused; the peak is a bound, and says when and who."""

import pytest

from penstock.errors import InternalError
from penstock.memory.problem import Buffer, Problem, live_peak, peak_live_bytes, stacked_bytes


def test_the_peak_names_its_tick_and_its_buffers() -> None:
    problem = Problem((Buffer("a", 0, 3, 5), Buffer("b", 2, 4, 7), Buffer("c", 3, 6, 6)))
    peak = live_peak(problem)
    assert (peak.tick, peak.size_bytes, peak.names) == (3, 13, ("b", "c"))


def test_a_life_is_half_open_so_neighbours_in_time_do_not_add() -> None:
    assert peak_live_bytes(Problem((Buffer("a", 0, 2, 5), Buffer("b", 2, 4, 7)))) == 7


def test_the_topmost_buffer_needs_no_padding() -> None:
    buffers = (Buffer("a", 0, 1, 5, alignment=4), Buffer("b", 0, 1, 6, alignment=4))
    assert stacked_bytes(buffers) == 8 + 5  # b below, a above


def test_mixed_alignments_may_fill_each_others_padding() -> None:
    buffers = (Buffer("a", 0, 1, 5, alignment=4), Buffer("b", 0, 1, 3))
    assert stacked_bytes(buffers) == 8


def test_a_fixed_buffer_raises_the_bound_to_its_end() -> None:
    assert peak_live_bytes(Problem((Buffer("a", 0, 1, 4, fixed_offset=12),))) == 16


def test_an_empty_problem_needs_nothing() -> None:
    assert peak_live_bytes(Problem(())) == 0


@pytest.mark.parametrize(
    ("buffer", "why"),
    [
        (("a", 3, 3, 1), "at least one tick"),
        (("a", 0, 1, 0), "at least one byte"),
        (("a", 0, 1, 1, 0), "alignment must be at least 1"),
        (("a", 0, 1, 1, 1, -4), "must not be negative"),
        (("a", 0, 1, 1, 8, 4), "must be aligned"),
    ],
)
def test_a_malformed_buffer_is_refused(buffer: tuple[str, int, int, int], why: str) -> None:
    with pytest.raises(InternalError) as caught:
        Buffer(*buffer)
    assert why in caught.value.why


def test_a_name_may_stand_only_once() -> None:
    with pytest.raises(InternalError, match="same name"):
        Problem((Buffer("a", 0, 1, 1), Buffer("a", 1, 2, 1)))


def test_fixed_buffers_must_not_overlap() -> None:
    with pytest.raises(InternalError, match="overlap: low, high"):
        Problem((Buffer("high", 0, 2, 4, 1, 3), Buffer("low", 1, 3, 4, 1, 0)))
    Problem((Buffer("high", 0, 2, 4, 1, 4), Buffer("low", 1, 3, 4, 1, 0)))
