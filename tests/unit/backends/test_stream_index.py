"""stream_index: an expression that numbers the streams of a step, one for each of its calls."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.backends.stream import RowsAndOffsets, stream_index
from penstock.program.expr import Var, evaluate
from penstock.program.steps import offset_name

ROWS = 4
X, Y = Var(offset_name(0)), Var(offset_name())


def numbers(calls: Sequence[RowsAndOffsets], *offsets: Var) -> list[int]:
    """The index of each call."""
    index = stream_index(calls, offsets, ROWS)
    return [evaluate(index, call.variables(offsets)) for call in calls]


def test_rows_suffice_where_offsets_do_not_distinguish_calls() -> None:
    assert numbers([RowsAndOffsets(0, 2, (16,)), RowsAndOffsets(2, 4, (48,))], X) == [0, 2]
    assert numbers([RowsAndOffsets(0, 1, ()), RowsAndOffsets(0, 2, ())]) == [1, 2], (
        "sum of the bounds"
    )
    both = [RowsAndOffsets(0, 3, ()), RowsAndOffsets(1, 2, ()), RowsAndOffsets(0, 4, ())]
    assert numbers(both) == [3, 7, 4], "the bounds as one number"


def test_offsets_count_by_their_ranks() -> None:
    bands = [RowsAndOffsets(0, 2, (100 + 24 * k,)) for k in range(3)]
    assert numbers(bands, X) == [0, ROWS, 2 * ROWS], "not by bytes"
    uneven = [RowsAndOffsets(1, 2, (offset,)) for offset in (7, 19, 43)]
    assert numbers(uneven, X) == [1, 1 + ROWS, 1 + 3 * ROWS], "multiples of 12 after 7"


def test_only_offsets_that_distinguish_calls_contribute() -> None:
    together = [RowsAndOffsets(0, 1, (3 * k, 5 * k)) for k in range(3)]
    assert numbers(together, X, Y) == [0, ROWS, 2 * ROWS], "one of two equal ranks"
    constant = [RowsAndOffsets(0, 1, (9, 8)), RowsAndOffsets(0, 1, (9, 6))]
    assert numbers(constant, X, Y) == [ROWS, 0]
    grid = [RowsAndOffsets(0, 1, (x, y)) for x in (0, 2, 4) for y in (1, 4)]
    assert numbers(grid, X, Y) == [0, 12, 4, 16, 8, 20], "ranks of X, then of Y"


def drawn_calls() -> st.SearchStrategy[list[RowsAndOffsets]]:
    """Different calls of one step, with two offsets."""
    offsets = st.tuples(st.integers(0, 40), st.integers(0, 40))
    call = st.builds(RowsAndOffsets, st.integers(0, ROWS - 1), st.integers(1, ROWS), offsets)
    not_empty = call.filter(lambda one: one.first < one.end)
    return st.lists(not_empty, min_size=1, max_size=12, unique=True)


@given(drawn_calls())
def test_calls_have_different_indices_from_zero_on(calls: list[RowsAndOffsets]) -> None:
    found = numbers(calls, X, Y)
    assert len(set(found)) == len(calls)
    assert min(found) >= 0
