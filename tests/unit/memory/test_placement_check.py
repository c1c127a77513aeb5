"""Check: detects every kind of fault, and reports no other."""

import pytest

from penstock.memory.check import Fault, Reason, check
from penstock.memory.problem import LiveBuffer, Placement, PlacementProblem

PROBLEM = PlacementProblem(
    (LiveBuffer("a", 0, 3, 4), LiveBuffer("b", 2, 5, 4, 4), LiveBuffer("c", 3, 6, 4)), 8
)


def placement(*offsets: tuple[str, int]) -> Placement:
    return Placement(offsets, 8, 8, "by hand")


def test_a_good_placement_has_no_fault() -> None:
    assert check(PROBLEM, placement(("a", 0), ("b", 4), ("c", 0))) == ()


@pytest.mark.parametrize(
    ("offsets", "fault"),
    [
        ((("b", 4), ("c", 0)), Fault(Reason.MISSING, ("a",))),
        ((("a", 0), ("a", 0), ("b", 4), ("c", 0)), Fault(Reason.MISSING, ("a",))),
        ((("a", 0), ("b", 4), ("c", 0), ("d", 0)), Fault(Reason.UNKNOWN, ("d",))),
        ((("a", -1), ("b", 4), ("c", 0)), Fault(Reason.NEGATIVE, ("a",))),
        ((("a", 0), ("b", 5), ("c", 0)), Fault(Reason.MISALIGNED, ("b",))),
        ((("a", 1), ("b", 4), ("c", 0)), Fault(Reason.OVERLAP, ("a", "b"))),
        ((("a", 5), ("b", 4), ("c", 0)), Fault(Reason.OVER_CAPACITY, ("a",))),
        ((("a", 0), ("b", 8), ("c", 0)), Fault(Reason.WRONG_HEIGHT, ())),
    ],
)
def test_every_fault_is_named(offsets: tuple[tuple[str, int], ...], fault: Fault) -> None:
    assert fault in check(PROBLEM, placement(*offsets))


def test_buffers_that_only_touch_do_not_overlap() -> None:
    touching = PlacementProblem(
        (LiveBuffer("a", 0, 1, 4), LiveBuffer("b", 0, 1, 4), LiveBuffer("c", 1, 2, 8))
    )
    assert check(touching, placement(("a", 0), ("b", 4), ("c", 0))) == ()


@pytest.mark.parametrize(("offset", "faults"), [(6, ()), (5, (Fault(Reason.UNTIED, ("b",)),))])
def test_a_tied_buffer_must_keep_its_distance(offset: int, faults: tuple[Fault, ...]) -> None:
    a, b = LiveBuffer("a", 0, 1, 4), LiveBuffer("b", 1, 2, 4, 1, "a", 4)
    found = Placement((("a", 2), ("b", offset)), offset + 4, 8, "by hand")
    assert check(PlacementProblem((a, b)), found) == faults
