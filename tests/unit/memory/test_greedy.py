"""Greedy placement: lowest gaps first, the best priority wins, ties by order."""

import pytest

from penstock.errors import InternalError
from penstock.memory.check import check
from penstock.memory.conflict import conflict
from penstock.memory.greedy import Priority, place_greedily, place_in_order
from penstock.memory.problem import LiveBuffer, PlacementProblem


def test_a_buffer_takes_the_lowest_hole_that_is_aligned_and_high_enough() -> None:
    below = LiveBuffer("below", 0, 9, 3)
    above = LiveBuffer("above", 0, 9, 5)
    early, late = LiveBuffer("early", 0, 2, 6), LiveBuffer("late", 8, 9, 2, alignment=4)
    large = LiveBuffer("large", 0, 9, 6)
    assert place_in_order([below, early, above, late, large]) == {
        "below": 0, "early": 3, "above": 9, "late": 4, "large": 14,
    }  # fmt: skip


@pytest.mark.parametrize("priority", list(Priority))
def test_every_priority_yields_a_valid_placement(priority: Priority) -> None:
    rows = ((i % 4, i % 4 + 2, 1 + i % 5, 1 + i % 2) for i in range(12))
    problem = PlacementProblem(tuple(LiveBuffer(f"b{i}", *row) for i, row in enumerate(rows)))
    assert check(problem, place_greedily(problem, (priority,))) == ()


def test_equal_buffers_are_placed_in_the_order_of_the_problem_whatever_their_names() -> None:
    for names in ("dacb", "bcad"):
        problem = PlacementProblem(tuple(LiveBuffer(name, 0, 2, 8) for name in names))
        assert [offset for _, offset in place_greedily(problem).offsets] == [0, 8, 16, 24]


def test_an_empty_problem_has_an_empty_placement() -> None:
    placement = place_greedily(PlacementProblem(()))
    assert (placement.offsets, placement.height_bytes, placement.gap) == ((), 0, 0.0)


def test_ties_are_refused_where_they_would_not_be_heeded() -> None:
    tied = PlacementProblem((LiveBuffer("a", 0, 1, 4), LiveBuffer("b", 1, 2, 4, 1, "a", 4)), 8)
    with pytest.raises(InternalError, match="greedy placement takes no tied buffers, as b is"):
        place_greedily(tied)
    with pytest.raises(InternalError, match="the search for a conflict takes no tied buffers"):
        conflict(tied)
