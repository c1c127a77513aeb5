"""Exact placement: better than greedy where possible, and with a gap where the bound is not met."""

import pytest

from penstock.memory import place
from penstock.memory.check import check
from penstock.memory.greedy import place_greedily
from penstock.memory.place import ExactOptions, fit, place_exactly, rankings, unit_bytes
from penstock.memory.problem import LiveBuffer, PlacementProblem, peak_live_bytes
from penstock.memory.stacking import buffers_as_boxes, stack

pytestmark = pytest.mark.usefixtures("constraint_solver")

# Each a tuple of (lower, upper, size).
GREEDY_NEEDS_16_BUT_15_IS_ENOUGH = (
    (5, 8, 1), (4, 8, 5), (6, 7, 4), (2, 6, 3), (2, 3, 4), (1, 5, 4), (0, 2, 7), (3, 7, 3),
    (0, 4, 4),
)  # fmt: skip
PEAK_IS_11_BUT_12_IS_NEEDED = (
    (2, 7, 6), (1, 6, 2), (3, 4, 2), (6, 7, 5), (0, 1, 3), (4, 5, 3), (0, 2, 5), (5, 6, 2),
    (0, 3, 2), (1, 2, 2),
)  # fmt: skip
THE_SAME_WITH_TWINS = (*PEAK_IS_11_BUT_12_IS_NEEDED[1:], (2, 7, 3), (2, 7, 3))
WITHOUT_SOLVER = ExactOptions(solver_work=0.0)
NODES = 2_071
"""With all reductions of `stacking`; without any one of them, at least 2,237."""


def problem(rows: tuple[tuple[int, int, int], ...], scale: int = 1) -> PlacementProblem:
    return PlacementProblem(
        tuple(LiveBuffer(f"b{i}", a, b, s * scale) for i, (a, b, s) in enumerate(rows))
    )


@pytest.mark.parametrize("options", [ExactOptions(), WITHOUT_SOLVER])
def test_exact_is_lower_than_greedy_on_a_known_hard_case(options: ExactOptions) -> None:
    hard = problem(GREEDY_NEEDS_16_BUT_15_IS_ENOUGH)
    assert place_greedily(hard).height_bytes == 16
    found = place_exactly(hard, options)
    assert (found.height_bytes, found.gap, check(hard, found)) == (15, 0.0, ())


@pytest.mark.parametrize("options", [ExactOptions(), WITHOUT_SOLVER])
def test_exact_proves_that_live_bytes_alone_do_not_suffice(options: ExactOptions) -> None:
    hard = problem(PEAK_IS_11_BUT_12_IS_NEEDED)
    found = place_exactly(hard, options)
    assert (peak_live_bytes(hard), found.bound_bytes, found.height_bytes) == (11, 12, 12)
    assert fit(hard, 11, options).fits is False
    assert fit(hard, 12, options).fits is True


def test_spent_work_leaves_a_proven_gap() -> None:
    hard = problem(PEAK_IS_11_BUT_12_IS_NEEDED)
    spent = place_exactly(hard, ExactOptions(max_nodes=10, solver_work=0.0))
    assert spent.bound_bytes == 11
    assert spent.gap == pytest.approx((spent.height_bytes - 11) / 11)
    assert fit(hard, 11, ExactOptions(max_nodes=10, solver_work=0.0)).fits is None


def test_large_problems_are_placed_greedily() -> None:
    hard = problem(GREEDY_NEEDS_16_BUT_15_IS_ENOUGH)
    assert place_exactly(hard, ExactOptions(max_buffers=8)) == place_greedily(hard)


def test_the_solver_saves_nodes_on_a_proof() -> None:
    pytest.importorskip("ortools", reason="the extra 'optimal' is not installed")
    hard = problem(PEAK_IS_11_BUT_12_IS_NEEDED)
    assert place_exactly(hard).nodes < place_exactly(hard, WITHOUT_SOLVER).nodes


def test_without_the_solver_the_search_alone_places(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = problem(PEAK_IS_11_BUT_12_IS_NEEDED)
    monkeypatch.setattr(place, "is_installed", lambda: False)
    assert place_exactly(hard) == place_exactly(hard, WITHOUT_SOLVER)


def test_the_unit_of_sizes_has_no_influence_on_the_work() -> None:
    fine = place_exactly(problem(PEAK_IS_11_BUT_12_IS_NEEDED), WITHOUT_SOLVER)
    coarse = place_exactly(problem(PEAK_IS_11_BUT_12_IS_NEEDED, scale=1000), WITHOUT_SOLVER)
    assert (coarse.nodes, coarse.gap) == (fine.nodes, 0.0)


def test_a_proof_takes_few_nodes() -> None:
    boxes = buffers_as_boxes(problem(THE_SAME_WITH_TWINS).buffers)
    _, rank = rankings(boxes)[0]
    found = stack(boxes, 11, rank, NODES)
    assert (found.offsets, found.finished, found.nodes) == (None, True, NODES)


def test_parting_ways_keeps_a_proof_from_being_repeated_for_every_choice_elsewhere() -> None:
    hard = problem(PEAK_IS_11_BUT_12_IS_NEEDED)
    elsewhere = (LiveBuffer(f"far{i}", 90 + i, 92 + i, 3) for i in range(4))
    both = buffers_as_boxes((*hard.buffers, *elsewhere))
    _, rank = rankings(both)[0]
    assert stack(both, 11, rank, 4_000).finished


@pytest.mark.parametrize(
    ("sizes", "alignments", "unit"),
    [
        ((64, 96), (16, 16), 32),
        ((64, 96), (1, 1), 32),
        ((64, 96), (64, 1), 32),
        ((5, 10), (4, 4), 1),
    ],
)
def test_the_unit_divides_every_reachable_offset(
    sizes: tuple[int, ...], alignments: tuple[int, ...], unit: int
) -> None:
    pairs = zip(sizes, alignments, strict=True)
    assert (
        unit_bytes(tuple(LiveBuffer(f"b{i}", 0, 1, s, a) for i, (s, a) in enumerate(pairs))) == unit
    )
