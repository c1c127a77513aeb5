"""Law: the judge accepts every placement of rows; laying is first fit, the slow way's equal."""

from random import Random

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.memory.check import check
from penstock.memory.problem import LiveBuffer, PlacementProblem, peak_live_bytes, shapes
from penstock.memory.rows import (
    RowOptions,
    empty_shelf,
    ends,
    improve,
    lay,
    place_rows,
    row_tables,
)
from quick import examples

CHEAP = RowOptions(rounds=((200, 20), (400, 40)), orders=3, patience=4)


@st.composite
def tied_problems(draw: st.DrawFn, max_shapes: int, max_bytes: int) -> PlacementProblem:
    """Shapes of up to four buffers that do not overlap in their shape."""
    buffers: list[LiveBuffer] = []
    for i in range(draw(st.integers(0, max_shapes))):
        alignment = draw(st.sampled_from((1, 1, 2, 4)))
        distance = 0
        for k in range(draw(st.sampled_from((1, 1, 2, 4)))):
            lower = draw(st.integers(0, 6))
            size = draw(st.integers(1, max_bytes))
            life = (lower, lower + draw(st.integers(1, 4)), size)
            if k == 0:
                buffers.append(LiveBuffer(f"s{i}", *life, alignment))
            else:
                own = draw(st.sampled_from((1, 2)))
                distance = -(-distance // own) * own
                buffers.append(LiveBuffer(f"s{i}.{k}", *life, own, f"s{i}", distance))
            distance += size + draw(st.integers(0, 1))
    return PlacementProblem(tuple(draw(st.permutations(buffers))))


def lies_free(
    shape: tuple[LiveBuffer, ...], base: int, placed: list[tuple[LiveBuffer, int]]
) -> bool:
    """Whether a shape at a base is aligned, and apart from what is placed."""
    return all(
        (base + b.distance_bytes) % b.alignment == 0
        and all(
            not b.meets(other)
            or at + other.size_bytes <= base + b.distance_bytes
            or base + b.distance_bytes + b.size_bytes <= at
            for other, at in placed
        )
        for b in shape
    )


def lay_by_hand(order: tuple[tuple[LiveBuffer, ...], ...]) -> dict[str, int]:
    """Every shape at the first base of 0, 1, 2, .. where it lies free."""
    placed: list[tuple[LiveBuffer, int]] = []
    for shape in order:
        base = 0
        while not lies_free(shape, base, placed):
            base += 1
        placed += [(buffer, base + buffer.distance_bytes) for buffer in shape]
    return {buffer.name: at for buffer, at in placed}


def fits_by_brute_force(
    order: tuple[tuple[LiveBuffer, ...], ...], ceiling: int, placed: list[tuple[LiveBuffer, int]]
) -> bool:
    """Whether any bases at all keep the shapes apart under the ceiling."""
    if not order:
        return True
    height = max(buffer.distance_bytes + buffer.size_bytes for buffer in order[0])
    return any(
        lies_free(order[0], base, placed)
        and fits_by_brute_force(
            order[1:], ceiling, [*placed, *((b, base + b.distance_bytes) for b in order[0])]
        )
        for base in range(ceiling - height + 1)
    )


@given(tied_problems(max_shapes=8, max_bytes=30))
@settings(deadline=None, max_examples=examples(150))
def test_the_judge_accepts_every_placement_which_is_never_under_the_bound(
    problem: PlacementProblem,
) -> None:
    placement = place_rows(problem, CHEAP)
    assert check(problem, placement) == ()
    assert placement.bound_bytes == peak_live_bytes(problem) <= placement.height_bytes
    assert place_rows(problem, CHEAP) == placement
    further = place_rows(problem)
    assert check(problem, further) == ()
    assert further.bound_bytes <= further.height_bytes


@given(tied_problems(max_shapes=4, max_bytes=4))
@settings(deadline=None, max_examples=examples(100))
def test_the_lowest_by_brute_force_lies_between_bound_and_placement(
    problem: PlacementProblem,
) -> None:
    placement = place_rows(problem)
    order = shapes(problem.buffers)
    least = 0
    while not fits_by_brute_force(order, least, []):
        least += 1
    assert placement.bound_bytes <= least <= placement.height_bytes


@given(tied_problems(max_shapes=7, max_bytes=9), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=examples(150))
def test_laying_in_any_order_is_first_fit(problem: PlacementProblem, random: Random) -> None:
    found = shapes(problem.buffers)
    assume(found)
    order = list(range(len(found)))
    random.shuffle(order)
    by_hand = lay_by_hand(tuple(found[i] for i in order))
    tables = row_tables(found, segment_rows=2)
    bases = np.zeros(len(found), dtype=np.int64)
    end = max(by_hand[buffer.name] + buffer.size_bytes for buffer in problem.buffers)
    for ceiling in (end, end - 1):
        turn, work = lay(tables, np.array(order), 0, ceiling, empty_shelf(tables), bases)
        assert (turn == len(order), work >= turn) == (ceiling == end, True)
        for i in order[:turn]:
            assert bases[i] == by_hand[found[i][0].name]


@given(tied_problems(max_shapes=8, max_bytes=20))
@settings(deadline=None, max_examples=examples(100))
def test_improving_an_order_never_raises_the_height(problem: PlacementProblem) -> None:
    assume(problem.buffers)
    tables = row_tables(shapes(problem.buffers), segment_rows=2)
    bound = peak_live_bytes(problem)
    order = np.arange(tables.shapes.shape[1])
    for reached in (bound, bound + 1, 2 * bound + 9):
        height, bases, _ = improve(tables, order, bound, reached, 500, 3)
        assert bound <= height <= reached
        assert (bases.min() >= 0) == (height < reached)
        if height < reached:
            assert (ends(tables, bases) <= height).all()
        assert improve(tables, order, bound, reached, 0, 3)[0] == reached
