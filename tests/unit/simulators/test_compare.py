"""Comparison of tensors: exact, or with a tolerance for functions of the C library."""

from __future__ import annotations

import numpy as np

from penstock.simulators.compare import compare_tensor, is_near


def test_nan_equals_nan_and_zeros_are_equal() -> None:
    found = np.array([np.nan, -0.0, 1.0], np.float32)
    expected = np.array([np.nan, 0.0, np.nan], np.float32)
    assert is_near(found, expected).tolist() == [True, True, False]


def test_the_tolerance_is_in_ulp_of_the_largest_element_of_a_vector() -> None:
    expected = np.array([[1.0, 0.25], [2.0**-20, 0.0]], np.float32)
    off = np.array([[2.0**-23, 2.0**-23], [2.0**-23, 2.0**-43]], np.float32)
    near = [[True, True], [False, True]]
    assert is_near(expected + off, expected, ulps=1).tolist() == near
    assert not is_near(expected + 2 * off, expected, ulps=1)[0].any()
    assert is_near(expected + 2 * off, expected, ulps=2)[0].all()


def test_infinities_must_be_equal() -> None:
    expected = np.array([np.inf, 1.0], np.float32)
    found = np.array([3.4e38, 1.0], np.float32)
    assert is_near(found, expected, ulps=4).tolist() == [False, True]


def test_8_bit_elements_may_differ_by_a_step_and_wider_ones_not() -> None:
    for dtype, near in ((np.int8, True), (np.uint8, True), (np.int32, False)):
        found, expected = np.array([5, 7], dtype), np.array([6, 7], dtype)
        assert is_near(found, expected, ulps=1).tolist() == [near, True]
        assert is_near(found, expected).tolist() == [False, True]


def test_the_first_difference_is_reported_with_real_numbers() -> None:
    found, expected = np.array([1.5, 2.5], np.float32), np.array([1.5, 2.25], np.float32)
    comparison = compare_tensor("y", 0, found, expected)
    assert comparison.mismatches == 1
    assert "element [1] is 2.5, must be 2.25" in str(comparison.first)
