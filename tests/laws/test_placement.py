"""Law: the judge accepts every placement; bound <= exact <= greedy; tiny problems are exact."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.memory.check import check
from penstock.memory.conflict import conflict
from penstock.memory.greedy import Priority, place_greedily
from penstock.memory.place import ExactOptions, fit, place_exactly
from penstock.memory.problem import LiveBuffer, PlacementProblem, peak_live_bytes
from quick import examples

pytestmark = pytest.mark.usefixtures("constraint_solver")


@st.composite
def problems(draw: st.DrawFn, max_buffers: int, max_bytes: int) -> PlacementProblem:
    """Small, dense problems."""
    buffers: list[LiveBuffer] = []
    for i in range(draw(st.integers(0, max_buffers))):
        lower = draw(st.integers(0, 5))
        upper = lower + draw(st.integers(1, 4))
        size = draw(st.integers(1, max_bytes))
        alignment = draw(st.sampled_from((1, 1, 2, 4)))
        buffers.append(LiveBuffer(f"b{i}", lower, upper, size, alignment))
    return PlacementProblem(tuple(buffers))


def fits_by_brute_force(problem: PlacementProblem, ceiling: int) -> bool:
    """Whether any offsets at all keep the buffers apart under the ceiling."""

    def rest_fits(placed: list[tuple[LiveBuffer, int]], rest: tuple[LiveBuffer, ...]) -> bool:
        if not rest:
            return True
        buffer = rest[0]
        for offset in range(0, ceiling - buffer.size_bytes + 1, buffer.alignment):
            apart = all(
                not buffer.meets(other)
                or offset + buffer.size_bytes <= at
                or at + other.size_bytes <= offset
                for other, at in placed
            )
            if apart and rest_fits([*placed, (buffer, offset)], rest[1:]):
                return True
        return False

    return rest_fits([], problem.buffers)


def least_height(problem: PlacementProblem) -> int:
    height = 0
    while not fits_by_brute_force(problem, height):
        height += 1
    return height


@given(problems(max_buffers=14, max_bytes=40))
@settings(deadline=None, max_examples=examples(60))
def test_the_judge_accepts_every_placement_and_exact_lies_between_bound_and_greedy(
    problem: PlacementProblem,
) -> None:
    bound = peak_live_bytes(problem)
    greedy = place_greedily(problem)
    exact = place_exactly(problem, ExactOptions(max_nodes=2_000))
    for priority in Priority:
        assert check(problem, place_greedily(problem, (priority,))) == ()
    assert check(problem, greedy) == check(problem, exact) == ()
    assert bound <= exact.bound_bytes <= exact.height_bytes <= greedy.height_bytes
    assert exact.optimal == (exact.gap == 0.0)


@given(problems(max_buffers=5, max_bytes=5))
@settings(deadline=None, max_examples=examples(100))
def test_exact_equals_brute_force_on_tiny_problems(problem: PlacementProblem) -> None:
    exact = place_exactly(problem)
    assert exact.optimal
    assert exact.height_bytes == least_height(problem)
    below = exact.height_bytes - 1
    assert fit(problem, below).fits is False
    assert fit(problem, below + 1).fits is True


@pytest.mark.parametrize("solver_work", [0.0, 0.5])
@given(problem=problems(max_buffers=5, max_bytes=5))
@settings(deadline=None, max_examples=examples(25))
def test_the_optimum_of_a_problem_in_larger_units_is_in_these_units_with_and_without_the_solver(
    problem: PlacementProblem, solver_work: float
) -> None:
    scaled = PlacementProblem(
        tuple(
            LiveBuffer(b.name, b.lower, b.upper, b.size_bytes * 12, b.alignment * 12)
            for b in problem.buffers
        )
    )
    options = ExactOptions(solver_work=solver_work)
    assert place_exactly(scaled, options).height_bytes == 12 * place_exactly(problem).height_bytes


@given(problems(max_buffers=7, max_bytes=6), st.integers(1, 4))
@settings(deadline=None, max_examples=examples(60))
def test_a_conflict_cannot_fit_and_fits_without_any_one_buffer(
    problem: PlacementProblem, lack_bytes: int
) -> None:
    capacity = place_exactly(problem).height_bytes - lack_bytes
    assume(capacity >= 0)
    found = conflict(PlacementProblem(problem.buffers, capacity))
    assert found is not None
    assert found.proven
    assert found.irreducible
    core = tuple(b for b in problem.buffers if b.name in found.names)
    assert not fits_by_brute_force(PlacementProblem(core), capacity)
    for left_out in core:
        rest = tuple(b for b in core if b is not left_out)
        assert fits_by_brute_force(PlacementProblem(rest), capacity)
