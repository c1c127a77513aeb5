"""Constants for NVDLA's own post-processing: every accumulator yields the reference's element."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from penstock.fixedpoint import quantise_multiplier
from penstock.uma import Channels
from penstock_nvdla.sdp_constants import Passes, Sums, Unproved, find_passes
from penstock_nvdla.sdp_functions import ELEMENTS, find_function

Real = st.floats(2.0**-12, 0.2)


def sums_of(
    scales: list[float], bias: list[int], reach: int, zero: int, bounds: tuple[int, int]
) -> Sums:
    """Channels with these scales and biases, whose products are in [-reach, reach)."""
    biases = np.array(bias, np.int64)
    multipliers, shifts = np.array([quantise_multiplier(scale) for scale in scales], np.int64).T
    channels = Channels(multipliers, shifts, biases - reach, biases + reach, zero, *bounds)
    return Sums(channels, biases)


def elements_of(passes: Passes, accumulators: NDArray[np.int64]) -> NDArray[np.int64]:
    """What the hardware writes: the elements of a pass, or the sum of two minus their origin."""
    first, *others = (one.elements(accumulators) for one in passes.passes)
    origin = passes.passes[0].settings.origin
    return first + others[0] - origin if others else first


@settings(max_examples=30)
@given(
    scales=st.lists(Real, min_size=1, max_size=9),
    bias=st.lists(st.integers(-300_000, 300_000), min_size=9, max_size=9),
    reach=st.sampled_from((1, 50, 3_000, 20_000)),
    zero=st.integers(-128, 127),
    kind=st.sampled_from(("none", "relu", "clamped")),
    in_y=st.booleans(),
)
def test_all_accumulators_yield_the_element_of_the_reference(
    scales: list[float], bias: list[int], reach: int, zero: int, kind: str, in_y: bool
) -> None:
    if kind == "clamped":
        zero = -128
    bounds = {"none": (-128, 127), "relu": (zero, 127), "clamped": (-128, 90)}[kind]
    sums = sums_of(scales, bias[: len(scales)], reach, zero, bounds)
    found = find_passes(sums, in_y=in_y)
    if isinstance(found, Unproved):
        assert found.count >= 1
        return
    products = np.arange(-reach, reach)[None, :].repeat(len(scales), axis=0)
    expected = sums.channels.outputs(products + sums.bias[:, None])
    np.testing.assert_array_equal(elements_of(found, products), expected)
    for one in found.passes:
        assert np.abs(one.operands).max() < 1 << 15


def test_usual_layers_are_proved() -> None:
    """Scales as those of real layers; a layer with outputs on both sides takes two passes, or one
    in unit Y."""
    scales = [2.0**-9 * (1 + k / 17) for k in range(16)]
    one = find_passes(sums_of(scales, [k * 977 for k in range(16)], 200_000, -128, (-128, 127)))
    both_sides = sums_of(scales, [k * -977 for k in range(16)], 200_000, 4, (-128, 127))
    two, in_y = find_passes(both_sides), find_passes(both_sides, in_y=True)
    assert isinstance(one, Passes)
    assert isinstance(two, Passes)
    assert isinstance(in_y, Passes)
    assert [len(found.passes) for found in (one, two, in_y)] == [1, 2, 1]


def test_a_clamp_inside_the_range_on_both_sides_is_refused() -> None:
    found = find_passes(sums_of([0.01], [0], 100_000, 3, (-20, 60)))
    assert found == Unproved(1, 1, "elements are clamped to [-20, 60]")


def test_functions_of_one_element_have_proved_constants_or_none() -> None:
    """Two slopes, as of a leaky ReLU, take two passes; both bounds of a clamp one; a curve none."""
    leaky = np.where(ELEMENTS > 3, ELEMENTS - 3, np.rint((ELEMENTS - 3) / 7)).astype(np.int64)
    clamp, curve = np.clip(ELEMENTS, -20, 60), ELEMENTS**2 // 128
    for table, zero, passes in ((leaky, 3, 2), (clamp, 0, 1), (-clamp, 0, 1)):
        found = find_function(table[None, :], zero, 0)
        assert found is not None
        assert len(found.passes) == passes
        np.testing.assert_array_equal(elements_of(found, ELEMENTS[None, :])[0], table)
        assert all(np.abs(one.operands).max() < 1 << 15 for one in found.passes)
    assert find_function(curve[None, :], 0, 0) is None
