"""Law: the product of two affine forms contains the box that one after the other names, and is that
box where the factors of the first are whole."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from found import SAMPLES
from penstock.errors import UsageError
from penstock.ir.affine import Affine, Number
from penstock.ir.tensor import Region
from strategies import regions

wholes = st.integers(0, 4)
fractions = st.builds(Fraction, st.integers(0, 9), st.integers(1, 6))
offsets = st.builds(Fraction, st.integers(-20, 20), st.integers(1, 5))


@st.composite
def forms(draw: st.DrawFn, rank: int, out_rank: int, factors: st.SearchStrategy[Number]) -> Affine:
    """Forms that name a box that holds something for every box that does."""
    rows = draw(st.lists(st.tuples(*[factors] * out_rank), min_size=rank, max_size=rank))
    extra = draw(st.lists(st.builds(Fraction, st.integers(6, 30), st.integers(1, 5)),
                          min_size=rank, max_size=rank))  # fmt: skip
    offset = draw(st.lists(offsets, min_size=rank, max_size=rank))
    matrix = tuple((*row, e) for row, e in zip(rows, extra, strict=True))
    return Affine(matrix, tuple(offset))


def boxes(rank: int) -> st.SearchStrategy[Region]:
    return st.tuples(regions((9,) * rank), st.tuples(*[st.integers(-9, 9)] * rank)).map(
        lambda pair: pair[0].shift(pair[1])
    )


@given(data=st.data())
def test_the_product_is_one_after_the_other_where_factors_of_the_first_are_whole(
    data: st.DataObject,
) -> None:
    first, then = data.draw(forms(2, 3, wholes)), data.draw(forms(2, 2, fractions))
    out = data.draw(boxes(3))
    assert (then @ first).apply(out) == then.apply(first.apply(out))


@given(data=st.data())
def test_the_product_contains_one_after_the_other(data: st.DataObject) -> None:
    first, then = data.draw(forms(2, 3, fractions)), data.draw(forms(3, 2, fractions))
    out = data.draw(boxes(3))
    chained, product = then.apply(first.apply(out)), (then @ first).apply(out)
    assert product.contains(chained)
    for axis, row in enumerate(then.matrix):  # and reaches further by less than one step a side
        slack = sum(row[:-1]) + 1
        assert chained.lower[axis] - product.lower[axis] <= slack
        assert product.upper[axis] - chained.upper[axis] <= slack


@given(data=st.data())
def test_products_of_operators_contain_what_the_operators_name_one_after_the_other(
    data: st.DataObject,
) -> None:
    _, consumer = data.draw(st.sampled_from(SAMPLES))
    inputs = [x for x in consumer.site.inputs if x.rank]  # no sample computes a scalar
    x = data.draw(st.sampled_from(inputs))
    k = consumer.site.inputs.index(x)
    producers = [s for _, s in SAMPLES if s.site.output.rank == x.rank]
    producer = data.draw(st.sampled_from(producers))
    out = data.draw(regions(consumer.site.output.shape))
    first = consumer.op.affine(consumer.site)[k]
    for then in producer.op.affine(producer.site):
        if then.matrix:
            assert (then @ first).apply(out).contains(then.apply(first.apply(out)))


def test_rounding_between_two_forms_is_part_of_their_product() -> None:
    doubled = Affine.diagonal((Fraction(1, 2),))
    halved = Affine.diagonal((2,))
    # Of row 1, up-scaling reads row [1/2, 1), so row 0 whole: then rows 0 and 1.
    assert halved.apply(doubled.apply(Region((1,), (2,)))) == Region((0,), (2,))
    assert (halved @ doubled).apply(Region((1,), (2,))).contains(Region((0,), (2,)))
    assert (doubled @ halved) == Affine.diagonal((1,))


def test_an_augmented_matrix_is_read_and_written_exactly() -> None:
    rows = ((0, Fraction(1, 16), 0), (2, 0, -1), (0, 0, 1))
    form = Affine.of_augmented([[0, 1 / 16, 0], [2, 0, -1.0], [0, 0, 1]], [0, -2])
    assert form.augmented == rows
    assert form == Affine(rows[:-1], (0, -2))
    assert all(type(x) is int for x in (*form.matrix[1], *form.offset))


@pytest.mark.parametrize(
    ("matrix", "offset", "what"),
    [
        ([], [], "have no columns"),
        ([[1, 0], [1]], [0], r"have \[1, 2\] columns"),
        ([[1, 0], [0, 2]], [0], r"the last row is \(0, 2\), must be"),
        ([[1, 0], [0, 1]], [0, 0], "2 offsets for 1 input axes"),
    ],
)
def test_a_matrix_that_is_not_augmented_is_refused(
    matrix: list[list[int]], offset: list[int], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        Affine.of_augmented(matrix, offset)
