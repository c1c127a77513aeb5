"""Laws of even rows: the checker accepts the placement, its height stays, and no ring is broken up;
a series that stays uneven had no room, which trying every address proves."""

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.memory import even_rows
from penstock.memory.check import check
from penstock.memory.even_rows import Series, placed_evenly, ring_rows, with_even_rows
from penstock.memory.place import place
from penstock.memory.problem import LiveBuffer, Placement, PlacementProblem
from penstock.memory.rows import RowOptions
from penstock.memory.runs import placed_in_runs
from quick import examples


@st.composite
def rows_and_others(draw: st.DrawFn) -> tuple[PlacementProblem, tuple[Series, ...]]:
    """Tensors whose rows are buffers of their own, between other buffers."""
    buffers: list[LiveBuffer] = []
    every: list[Series] = []
    for t in range(draw(st.integers(1, 2))):
        size, alignment = draw(st.sampled_from(((4, 4), (6, 4), (3, 1))))
        lives = draw(
            st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3)), min_size=2, max_size=5)
        )
        rows = [
            LiveBuffer(f"t{t}[{r}]", lower, lower + ticks, size, alignment)
            for r, (lower, ticks) in enumerate(lives)
        ]
        every.append(tuple(row.name for row in rows))
        buffers += rows
    for k in range(draw(st.integers(0, 4))):
        lower, ticks = draw(st.integers(0, 7)), draw(st.integers(1, 6))
        buffers.append(LiveBuffer(f"other{k}", lower, lower + ticks, draw(st.integers(1, 12)), 4))
    return PlacementProblem(tuple(buffers)), tuple(every)


def offsets_of(placement: Placement, series: Series) -> list[int]:
    """The addresses of a series of rows."""
    placed = dict(placement.offsets)
    return [placed[name] for name in series]


def has_room(problem: PlacementProblem, placement: Placement, series: Series) -> bool:
    """Whether some address suits the series at one address or as a whole tensor."""
    by_name = {buffer.name: buffer for buffer in problem.buffers}
    size = by_name[series[0]].size_bytes
    for pitch in (0, size):
        for base in range(placement.height_bytes):
            moved = {name: base + r * pitch for r, name in enumerate(series)}
            offsets = tuple((name, moved.get(name, at)) for name, at in placement.offsets)
            height = max(at + by_name[name].size_bytes for name, at in offsets)
            if height > placement.height_bytes:
                break
            if not check(problem, Placement(offsets, height, 0, "tried")):
                return True
    return False


@given(rows_and_others(), st.sampled_from((1, 5, even_rows.MOST_PAIRS)))
@settings(max_examples=examples(60))
def test_rows_become_even_where_there_is_room(
    drawn: tuple[PlacementProblem, tuple[Series, ...]], most_pairs: int
) -> None:
    problem, every = drawn
    placed = place(problem)
    with mock.patch.object(even_rows, "MOST_PAIRS", most_pairs):
        even = with_even_rows(problem, placed, every)
    faults = [fault.reason.value for fault in check(problem, even)]
    assert faults == []
    assert even.height_bytes <= placed.height_bytes
    for series in every:
        size = next(b.size_bytes for b in problem.buffers if b.name == series[0])
        before, after = (np.array(offsets_of(p, series)) for p in (placed, even))
        if ring_rows(before, size) is not None:
            assert (before == after).all()
    first = np.array(offsets_of(placed, every[0]))
    size = next(b.size_bytes for b in problem.buffers if b.name == every[0][0])
    if ring_rows(first, size) is None:
        stayed = (first == np.array(offsets_of(even, every[0]))).all()
        assert stayed != has_room(problem, placed, every[0])


@given(rows_and_others(), st.integers(0, 20))
@settings(max_examples=examples(60))
def test_rows_are_even_where_a_ceiling_leaves_room(
    drawn: tuple[PlacementProblem, tuple[Series, ...]], spare: int
) -> None:
    problem, every = drawn
    whole = sum(buffer.size_bytes + 3 for buffer in problem.buffers)
    found = placed_evenly(problem, every, whole, RowOptions())
    assert found is not None
    assert check(problem, found) == ()
    for series in every:
        size = next(b.size_bytes for b in problem.buffers if b.name == series[0])
        rows = np.array(offsets_of(found, series))
        assert size % 4 or (rows == rows[0] + size * np.arange(len(rows))).all()
    ceiling = place(problem).height_bytes + spare
    less = placed_evenly(problem, every, ceiling, RowOptions())
    assert less is None or (less.height_bytes <= ceiling and check(problem, less) == ())


def runs_of(placement: Placement, series: Series) -> int:
    """Into how many runs of adjacent rows of 16 bytes a series is divided."""
    return 1 + int((np.diff(offsets_of(placement, series)) != 16).sum())


@given(rows_and_others())
@settings(max_examples=examples(60))
def test_placements_in_runs_are_valid(drawn: tuple[PlacementProblem, tuple[Series, ...]]) -> None:
    problem, every = drawn
    found = list(placed_in_runs(problem, every))
    assert [fault for placement in found for fault in check(problem, placement)] == []
    useful = max((placement.height_bytes for placement in found), default=0)
    lower = list(placed_in_runs(problem, every, useful))
    assert lower == found[: len(lower)]
    assert not [*placed_in_runs(problem, every, 0)]


def test_layers_that_overwrite_their_inputs_need_two_runs_each() -> None:
    """Layers of 25 rows that compute ten rows in a call; each reads a row above and below."""
    rows, layers, most = 25, 6, 10
    calls = [(t, first) for t in range(layers) for first in range(0, rows, most)]
    born = {
        (t, r): tick
        for tick, (t, first) in enumerate(calls)
        for r in range(first, min(first + most, rows))
    }
    dead = {(t, r): born.get((t + 1, min(r + 1, rows - 1)), len(calls)) + 1 for t, r in born}
    names = {each: f"t{each[0]}[{each[1]}]" for each in born}
    every = [tuple(names[t, r] for r in range(rows)) for t in range(layers)]
    problem = PlacementProblem(
        tuple(LiveBuffer(names[each], born[each], dead[each], 16, 16) for each in born)
    )
    first = next(placed_in_runs(problem, every))
    assert first.height_bytes == first.bound_bytes == 36 * 16
    assert max(runs_of(first, series) for series in every) == 2
    assert max(runs_of(place(problem), series) for series in every) > 2


def test_rows_in_a_ring_buffer_are_recognised() -> None:
    assert ring_rows(np.array([4, 4, 4]), 8) == 1
    assert ring_rows(np.array([4, 12, 20]), 8) == 3
    assert ring_rows(np.array([4, 12, 4, 12, 4]), 8) == 2
    assert ring_rows(np.array([4, 12, 4, 4]), 8) is None
    assert ring_rows(np.array([4, 20, 36]), 8) is None
