"""Conflicts: the buffers that do not fit together, because of live bytes or fragmentation."""

import pytest

from penstock.errors import InternalError
from penstock.memory.conflict import Conflict, ConflictOptions, conflict
from penstock.memory.place import ExactOptions
from penstock.memory.problem import LiveBuffer, PlacementProblem

pytestmark = pytest.mark.usefixtures("constraint_solver")

FRAGMENTED = (
    (2, 7, 6), (1, 6, 2), (3, 4, 2), (6, 7, 5), (0, 1, 3), (4, 5, 3), (0, 2, 5), (5, 6, 2),
    (0, 3, 2), (1, 2, 2),
)  # fmt: skip
NEEDS_12 = tuple(LiveBuffer(f"b{i}", a, b, s) for i, (a, b, s) in enumerate(FRAGMENTED))


def test_live_bytes_above_the_capacity_name_the_largest_at_the_peak() -> None:
    small = tuple(LiveBuffer(f"small{i}", 0, 9, 1) for i in range(5))
    large = (LiveBuffer("x", 0, 3, 60), LiveBuffer("y", 2, 5, 50), LiveBuffer("later", 5, 9, 90))
    assert conflict(PlacementProblem((*small, *large), 100)) == Conflict(("x", "y"), True, True)


def test_a_feasible_problem_has_no_conflict() -> None:
    assert conflict(PlacementProblem(NEEDS_12, 12)) is None


def test_fragmentation_alone_can_be_a_conflict() -> None:
    padding = tuple(LiveBuffer(f"far{i}", 20 + i, 22 + i, 3) for i in range(6))
    found = conflict(PlacementProblem((*NEEDS_12, *padding), 11))
    assert found is not None
    assert found.proven
    assert found.irreducible
    assert set(found.names) <= {buffer.name for buffer in NEEDS_12}


def test_a_buffer_larger_than_the_capacity_is_a_conflict_of_its_own() -> None:
    buffers = (LiveBuffer("a", 0, 1, 8), LiveBuffer("large", 3, 4, 104))
    assert conflict(PlacementProblem(buffers, 100)) == Conflict(("large",), True, True)


def test_spent_work_is_admitted() -> None:
    unproven = ConflictOptions(exact=ExactOptions(max_nodes=5, solver_work=0.0))
    found = conflict(PlacementProblem(NEEDS_12, 11), unproven)
    assert found is not None
    assert not found.proven
    unfiltered = conflict(PlacementProblem(NEEDS_12, 10), ConflictOptions(max_asks=1))
    assert unfiltered is not None
    assert unfiltered.proven
    assert not unfiltered.irreducible


def test_a_conflict_needs_a_capacity() -> None:
    with pytest.raises(InternalError):
        conflict(PlacementProblem(NEEDS_12))
