"""Feasible factors of clamped forms against every accumulator of small ranges."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.requantisation.clamped import OUTPUT_BIT, ClampedForm, certify_clamped, first_offsets
from requantisation_judge import by_hand, layer, reals


def has_offset(
    form: ClampedForm, factor: int, outputs: dict[int, int], bounds: tuple[int, int], signed: bool
) -> bool:
    """Whether some offset, and some correction if `signed`, yields every output."""
    least, most = bounds
    goal_bit = OUTPUT_BIT + int(form.bits[0])
    low, high = {False: -(2**70), True: -(2**70)}, {False: 2**70, True: 2**70}
    for accumulator, output in outputs.items():
        a = min(max(accumulator - int(form.origin[0]), -1), int(form.highest[0]))
        side = signed and a < int(form.turn[0])
        goal = (output - least - 1 << goal_bit) - a * factor
        if output > least:
            low[side] = max(low[side], goal)
        if output < most:
            high[side] = min(high[side], goal + (1 << goal_bit) - 1)
    return all(low[side] <= high[side] for side in (False, True))


@settings(deadline=None, max_examples=100)
@given(
    real=reals,
    lower=st.integers(-9_000, 9_000),
    length=st.integers(1, 1_000),
    zero=st.integers(-128, 127),
    relu=st.booleans(),
    distance=st.integers(-40, 40),
    signed=st.booleans(),
)
def test_no_factor_that_has_an_offset_is_omitted(
    real: float, lower: int, length: int, zero: int, relu: bool, distance: int, signed: bool
) -> None:
    bounds = (min(zero, 126), 127) if relu else (-128, 127)
    channels = layer(real, lower, lower + length, zero, bounds)
    form = certify_clamped(channels).form
    if form is None:
        return
    factor = max(int(form.factor[0]) + distance, 1)
    first, _, _ = first_offsets(
        np.array([[lower, lower + length]], np.int64),
        channels.thresholds(),
        form.origin,
        OUTPUT_BIT + form.bits,
        np.array([[factor]], np.int64),
        np.zeros(1, np.int64),
        signed,
    )
    every = range(lower, lower + length)
    outputs = dict(zip(every, by_hand(channels, every), strict=True))
    if has_offset(form, factor, outputs, bounds, signed):
        assert first[0] == 0
