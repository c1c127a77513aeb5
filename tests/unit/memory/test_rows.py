"""Row placement: ties are kept, heights are close to the live bytes."""

from collections.abc import Callable

import pytest

from penstock import compiled
from penstock.memory import rows
from penstock.memory.check import check
from penstock.memory.place import PlaceOptions, place, place_exactly, placed_further
from penstock.memory.problem import LiveBuffer, PlacementProblem, live_peak
from penstock.memory.rows import RowOptions, place_rows
from row_problems import Case, Chain, Tensor, Window, cases, mobilenet_v1, row_problem

LIMIT = 1.10
"""Largest accepted height / live bytes."""
WITHOUT_IMPROVEMENT = RowOptions(rounds=())


def test_nothing_is_placed_nowhere() -> None:
    assert place_rows(PlacementProblem(())).optimal


def test_the_rows_of_a_chain_live_as_worked_out_by_hand() -> None:
    # Three rows by a window of three with stride two: output row 0 reads rows 0 and 1.
    problem = row_problem(Chain(3, 8).windowed(3, 2, 5).network())
    assert problem.buffers == (
        LiveBuffer("t0[0]", 0, 1, 8, 4),
        LiveBuffer("t0[1]", 0, 2, 8, anchor="t0[0]", distance_bytes=8),
        LiveBuffer("t0[2]", 0, 2, 8, anchor="t0[0]", distance_bytes=16),
        LiveBuffer("t1[0]", 0, 2, 10, 4),
        LiveBuffer("t1[1]", 1, 2, 10, anchor="t1[0]", distance_bytes=10),
    )


def test_a_streamed_residual_is_made_on_demand_and_kept_until_it_is_added() -> None:
    network = (Tensor(3, 4), Tensor(3, 4, (Window(0, 3),)), Tensor(3, 4, (Window(0), Window(1))))
    lives = [(b.lower, b.upper) for b in row_problem(network, streamed=True).buffers]
    assert lives == [
        (0, 6), (1, 8), (4, 9),  # the input's rows 1 and 2 wait for the window's last row
        (2, 4), (5, 7), (7, 9),  # each dies as soon as it is added
        (3, 9), (6, 9), (8, 9),
    ]  # fmt: skip


def test_an_output_slides_over_the_rows_of_the_input_that_are_dead() -> None:
    # As many bytes out as in, one row behind: three rows are alive beside the array itself.
    problem = row_problem(Chain(16, 32).windowed(3, 1, 2).network())
    placement = place(problem)
    assert check(problem, placement) == ()
    assert placement.height_bytes == live_peak(problem).size_bytes == 16 * 32 + 2 * 32


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_cascade_needs_hardly_more_than_its_live_bytes(case: Case) -> None:
    problem = case.problem()
    placement = place(problem)
    assert check(problem, placement) == ()
    assert placement.height_bytes <= LIMIT * placement.bound_bytes
    assert placement.height_bytes <= place_rows(problem, WITHOUT_IMPROVEMENT).height_bytes


def test_improvement_pays() -> None:
    problem = Case("", mobilenet_v1(224, 1.0), (8, 12)).problem()
    plain, improved = place_rows(problem, WITHOUT_IMPROVEMENT), place_rows(problem)
    assert improved.height_bytes < plain.height_bytes
    assert improved.nodes > plain.nodes
    assert improved.method.endswith(", improved")


def test_placing_further_repeats_no_round(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Case("", mobilenet_v1(224, 1.0), (8, 12)).problem()
    options = PlaceOptions(rows=RowOptions(orders=3), max_exact_buffers=0)
    improve, calls = rows.improve, list[int]()
    monkeypatch.setattr(rows, "improve", lambda *given: calls.append(given[4]) or improve(*given))
    quick = place(problem, options.quick)
    assert not quick.optimal
    before = len(calls)
    further = placed_further(problem, quick, options)
    assert further.nodes > quick.nodes
    assert len(set(calls[:before])) == len(set(calls[before:])) == 1
    assert max(calls[:before]) < min(calls[before:])


def test_an_order_of_several_priorities_is_improved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Case("", mobilenet_v1(224, 1.0), (8, 12)).problem()
    every, improve, calls = rows._orders, rows.improve, list[int]()
    monkeypatch.setattr(rows, "_orders", lambda tables: [next(every(tables))] * 2)
    monkeypatch.setattr(rows, "improve", lambda *given: calls.append(given[4]) or improve(*given))
    # The budget is too small to lower the height, after which the order may lead to another one.
    twice = place_rows(problem, RowOptions(rounds=((2, 100),), orders=2, patience=7))
    assert not twice.method.endswith(", improved")
    assert len(calls) == 1


def test_only_ties_or_many_buffers_go_to_the_row_placer() -> None:
    few = PlacementProblem((LiveBuffer("a", 0, 2, 4), LiveBuffer("b", 1, 3, 4)))
    assert place(few) == place_exactly(few)
    assert place(few, PlaceOptions(max_exact_buffers=1)).method.startswith("rows by")
    tied = PlacementProblem((LiveBuffer("a", 0, 2, 4), LiveBuffer("b", 1, 3, 4, 1, "a", 4)))
    assert place(tied).method.startswith("rows by")


def test_without_a_folder_for_the_cache_functions_are_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def njit(*functions: Callable[..., object], cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return "compiled", *functions

    monkeypatch.setattr(compiled, "njit", njit)
    assert compiled.compiled(len) == ("compiled", len)
