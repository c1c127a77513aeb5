from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.errors import UnsupportedError
from penstock.simulators.drawn_inputs import KINDS, draw_inputs

TYPES = (((1, 16, 17, 3), np.int8, -10), ((4, 50), np.uint8, 128), ((100,), np.int16, 0))


def drawn(kind: str, seed: int = 7) -> tuple[NDArray[Any], ...]:
    return draw_inputs(TYPES, KINDS.index(kind), seed)


@pytest.mark.parametrize("kind", KINDS)
def test_every_input_has_the_shape_and_type_that_was_asked_for(kind: str) -> None:
    for values, (shape, dtype, _) in zip(drawn(kind), TYPES, strict=True):
        assert values.shape == shape
        assert values.dtype == dtype


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_draws_the_same_and_another_draws_something_else(kind: str) -> None:
    for first, again, other in zip(drawn(kind), drawn(kind), drawn(kind, seed=8), strict=True):
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_set_numbers_go_round_the_kinds_without_repeating_values() -> None:
    first, again = draw_inputs(TYPES, 3, 7), draw_inputs(TYPES, 3 + len(KINDS), 7)
    assert {int(v) for v in np.unique(again[0])} == {-128, 127}
    assert not np.array_equal(first[0], again[0])


def test_what_is_drawn_for_a_seed_stays_the_same_for_ever() -> None:
    values = draw_inputs((((6,), np.int8, 0),), 0, 1)[0]
    assert values.tolist() == [-7, 3, 65, 115, -120, -92]


def test_uniform_inputs_reach_every_value_of_the_type() -> None:
    (values,) = draw_inputs((((100, 100), np.int8, 0),), KINDS.index("uniform"), 1)
    assert len(np.unique(values)) == 256


def test_gaussian_inputs_gather_around_the_zero_point() -> None:
    (values,) = draw_inputs((((100, 100), np.int8, 20),), KINDS.index("gaussian"), 1)
    assert 10 < values.mean() < 25  # clipped more on the upper side
    assert 45 < values.std() < 65


def test_smooth_inputs_change_little_from_neighbour_to_neighbour() -> None:
    (values,) = draw_inputs((((64, 64), np.int8, 0),), KINDS.index("smooth"), 1)
    steps = np.abs(np.diff(values.astype(int), axis=1))
    assert steps.max() <= 17
    assert np.ptp(values.astype(int)) > 50


def test_extreme_inputs_are_the_smallest_or_the_largest_value() -> None:
    assert set(np.unique(drawn("extremes")[2])) == {-32768, 32767}


def test_sparse_inputs_are_mostly_the_zero_point() -> None:
    (values,) = draw_inputs((((100, 100), np.int8, -3),), KINDS.index("zero_point_sparse"), 1)
    assert 0.93 < (values == -3).mean() < 0.97


@pytest.mark.parametrize("kind", KINDS)
def test_float_inputs_lie_between_minus_one_and_one(kind: str) -> None:
    (values,) = draw_inputs((((50, 5), np.float32, 0),), KINDS.index(kind), 1)
    assert values.dtype == np.float32
    assert -1 <= values.min() < values.max() < 1


@pytest.mark.parametrize("kind", KINDS)
def test_booleans_are_drawn(kind: str) -> None:
    (values,) = draw_inputs((((50, 5), np.bool_, 0),), KINDS.index(kind), 1)
    assert values.dtype == np.bool_
    assert values.any()
    assert not values.all()


@pytest.mark.parametrize("kind", KINDS)
def test_wide_integers_fit_into_32_bits(kind: str) -> None:
    (values,) = draw_inputs((((50, 5), np.int64, 0),), KINDS.index(kind), 1)
    assert values.dtype == np.int64
    np.testing.assert_array_equal(values, values.astype(np.int32))
    assert values.any()


def test_a_scalar_input_is_drawn_too() -> None:
    for number in range(len(KINDS)):
        assert draw_inputs((((), np.int8, 0),), number, 1)[0].shape == ()


def test_a_type_that_cannot_be_drawn_is_an_error_in_four_parts() -> None:
    with pytest.raises(UnsupportedError) as caught:
        draw_inputs((((3,), np.complex64, 0),), 0, 1)
    assert str(caught.value) == (
        "error[golden-001]: random inputs of type complex64 are not supported\n"
        "  --> an input of the model\n"
        "  why: the supported types are booleans, integers and floats\n"
        "  help: provide the inputs in an archive"
    )
