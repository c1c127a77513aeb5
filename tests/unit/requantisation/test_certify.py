"""Certified requantisation against the reference, accumulator by accumulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.choices import Rounding
from penstock.fixedpoint import multiply, quantise_multiplier
from penstock.requantisation.certify import FRACTIONS, certify, certify_each
from penstock.requantisation.form import Channels, Class, Form, proved, reachable
from requantisation_judge import by_hand, layer, reals, signed, together


def by_registers(form: Form, channels: Channels, accumulators: range) -> list[int]:
    """The form, an accumulator at a time, as the instructions are specified."""
    factor, offset = int(form.factor[0]), int(form.offset[0])
    found: list[int] = []
    for accumulator in accumulators:
        t = signed((accumulator << form.fraction_bits) + offset)
        if t < 0:
            t = signed(t - int(form.correction[0]))
        scaled = signed((t * factor >> 32) + int(form.base[0])) >> form.shift
        saturated = min(max(scaled, -128), 127)
        found.append(min(max(saturated, channels.least), channels.most))
    return found


@settings(deadline=None, max_examples=60)
@given(
    real=reals,
    lower=st.integers(-40_000, 40_000),
    length=st.integers(1, 3_000),
    zero=st.integers(-128, 127),
    relu=st.booleans(),
    bits=st.sampled_from((8, 10, 12)),
    rounding=st.sampled_from(Rounding),
)
def test_a_certified_form_equals_the_reference_for_every_accumulator(
    real: float,
    lower: int,
    length: int,
    zero: int,
    relu: bool,
    bits: int,
    rounding: Rounding,
) -> None:
    bounds = (zero, 127) if relu else (-128, 127)
    channels = layer(real, lower, lower + length, zero, bounds, rounding)
    certificate = certify(channels, bits)
    every = range(lower, lower + length)
    assert certificate.outside.tolist() == [certificate.classes == (Class.D,)]
    if not certificate.outside.any():
        assert by_registers(certificate.form, channels, every) == by_hand(channels, every)


@settings(deadline=None, max_examples=60)
@given(
    layers=st.lists(
        st.tuples(reals, st.integers(-40_000, 40_000), st.integers(1, 3_000)),
        min_size=1,
        max_size=6,
    ),
    zero=st.integers(-128, 127),
    relu=st.booleans(),
    rounding=st.sampled_from(Rounding),
)
def test_forms_of_channels_alone_equal_the_reference_for_every_accumulator(
    layers: list[tuple[float, int, int]], zero: int, relu: bool, rounding: Rounding
) -> None:
    bounds = (zero, 127) if relu else (-128, 127)
    every = [layer(real, lower, lower + n, zero, bounds, rounding) for real, lower, n in layers]
    for channel, found in zip(every, certify_each(together(every)), strict=True):
        assert (found.form is None) == (found.kind is Class.D)
        if found.form is not None:
            accumulators = range(int(channel.lower[0]), int(channel.upper[0]))
            mine = by_registers(found.form, channel, accumulators)
            assert mine == by_hand(channel, accumulators)
            assert found.form.corrects <= (found.kind is Class.C)
            assert (found.form.shift == 0) >= (found.kind is Class.A)


def test_channels_outside_leave_the_others_their_form() -> None:
    """Three channels that have a form, and between them one whose accumulators leave no room."""
    near = [layer(0.004 / k, -10_000, 90_000 * k, -128) for k in (1, 2, 3)]
    far = layer(0.000_01, -10_000, 2**25, -128)
    channels = [near[0], far, *near[1:]]
    certificate = certify(together(channels), 8, 4)
    assert certificate.outside.tolist() == [False, True, False, False]
    for k in (0, 2, 3):
        accumulators = range(-10_000, int(channels[k].upper[0]), 7)
        mine = by_registers(certificate.form.only(k), channels[k], accumulators)
        assert mine == by_hand(channels[k], accumulators)
    (alone,) = certify_each(far)
    assert alone.form is not None
    assert alone.form.fraction_bits in FRACTIONS
    accumulators = range(-10_000, 2**25, 1_009)
    assert by_registers(alone.form, far, accumulators) == by_hand(far, accumulators)


@settings(deadline=None, max_examples=40)
@given(
    real=st.floats(1e-4, 0.9),
    lower=st.integers(-9_000, 0),
    zero=st.integers(-128, 127),
    factor=st.integers(-3, 3),
    offset=st.integers(-300, 300),
    correction=st.integers(-300, 300),
)
def test_a_form_is_proved_exactly_where_it_is_right(
    real: float, lower: int, zero: int, factor: int, offset: int, correction: int
) -> None:
    """Forms near a good one, most of them wrong: the proof says what trying everything says."""
    channels = layer(real, lower, lower + 2_500, zero)
    good = certify(channels, 10).form
    form = replace(
        good,
        factor=good.factor + factor,
        offset=good.offset + offset,
        correction=good.correction + correction,
    )
    every = range(lower, lower + 2_500)
    right = by_registers(form, channels, every) == by_hand(channels, every)
    assert bool(proved(form, channels, channels.thresholds())[0]) == right


def test_the_reference_is_that_of_fixedpoint() -> None:
    channels = layer(0.0037, -70_000, 70_000, zero=-4)
    every = np.arange(-70_000, 70_000)
    expected = np.clip(multiply(every, *quantise_multiplier(0.0037)) - 4, -128, 127)
    np.testing.assert_array_equal(channels.outputs(every[None])[0], expected)
    assert by_hand(channels, range(-70_000, 70_000)) == expected.tolist()


def test_thresholds_are_where_outputs_rise() -> None:
    channels = layer(0.013, -5_000, 5_000, zero=10, bounds=(-20, 60))
    outputs = channels.outputs(np.arange(-5_000, 5_000)[None])[0]
    expected = [
        -5_000 + int(np.argmax(outputs >= level)) if (outputs >= level).any() else 5_000
        for level in range(-19, 61)
    ]
    assert channels.thresholds()[0].tolist() == expected


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"offset": 700}, "rounded elsewhere"),
        ({"base": 1 << 12}, "rounded half a step higher"),
        ({"shift": 1}, "a step twice as large"),
        ({"correction": -400}, "ties of negative numbers rounded up"),
    ],
)
def test_wrong_cheap_forms_are_refused(change: dict[str, int], why: str) -> None:
    channels = layer(0.0041, -100_000, 100_000, zero=3)
    certificate = certify(channels, 8)
    assert certificate.classes == (Class.C,)
    form = certificate.form
    assert proved(form, channels, channels.thresholds())[0]
    wrong = replace(form, **{name: getattr(form, name) + by for name, by in change.items()})
    assert not proved(wrong, channels, channels.thresholds())[0], why


def test_a_form_that_wraps_is_refused() -> None:
    """It is right at every threshold, and wrong beyond, where t leaves 32 bits."""
    near = layer(0.01, -20_000, 20_000)
    form = certify(near, 12).form
    far = layer(0.01, -20_000, 2_000_000)
    assert not proved(form, far, far.thresholds())[0]
    assert by_registers(form, far, range(600_000, 600_001)) != by_hand(far, range(600_000, 600_001))


def test_channels_that_are_all_but_dead_are_served() -> None:
    """A huge bias, and a scale so small that the output hardly moves."""
    channels = layer(2.3e-7, 99_105_456, 99_198_277, zero=-128)
    assert channels.outputs(np.array([[99_105_456, 99_198_276]])).tolist() == [[-105, -105]]
    assert not certify(channels, 8).outside.any()


def test_negative_ties_need_the_correction() -> None:
    """-0.5 becomes -1 and 0.5 becomes 1: no single offset rounds both."""
    channels = layer(2.0**-8, -30_000, 30_000)
    assert certify(channels, 8).classes == (Class.C,)
    positive = layer(2.0**-8, 0, 30_000)
    assert certify(positive, 8).classes[0] in (Class.A, Class.B)


def test_accumulators_reach_what_they_reach() -> None:
    rng = np.random.default_rng(5)
    weights, bias = rng.integers(-3, 4, (2, 3)), rng.integers(-9, 9, 2)
    inputs = np.array(np.meshgrid(*([np.arange(-2, 4)] * 3))).reshape(3, -1)
    sums = weights @ inputs + bias[:, None]
    lower, upper = reachable(weights, bias, -2, 4)
    assert lower.tolist() == sums.min(axis=1).tolist()
    assert upper.tolist() == (sums.max(axis=1) + 1).tolist()


def tried(channels: Channels, bits: int, *, signed: bool) -> bool:
    """Whether any of many thousand forms gives the reference's outputs for every accumulator."""
    every = np.arange(int(channels.lower[0]), int(channels.upper[0]))[None]
    expected = channels.outputs(every)[0]
    good = certify(channels, 12).form
    shift = good.shift - 12 + bits
    origin = (channels.zero << shift) + (1 << shift >> 1) * signed
    middle = 0 if signed else round(0.5 / channels.real[0] * 2**bits)
    offsets = np.arange(2**bits) if signed else middle + np.arange(-(2**bits), 2**bits + 1)
    corrections = np.arange(-(2**bits), 2**bits + 1) if signed else np.array([0])
    for factor in int(good.factor[0]) + np.arange(-3, 4) * 2**12:
        grid = np.meshgrid(offsets, corrections, origin + np.arange(8), indexing="ij")
        offset, correction, base = (axis.ravel().astype(np.int64) for axis in grid)
        form = Form(np.full_like(offset, factor), offset, correction, base, shift, bits)
        found = form.outputs(every, channels.least, channels.most)
        if (found == expected).all(axis=1).any():
            return True
    return False


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [2, 3])
def test_no_channel_needs_the_reference_where_a_form_is_found_by_trying(
    bits: int, signed: bool
) -> None:
    """With a short fraction many channels have no form: a search that only tries finds none for
    those either."""
    rng = np.random.default_rng(bits)
    classes: list[Class] = []
    for real in rng.uniform(0.05, 0.4, 12):
        lower = int(rng.integers(-400, -100)) if signed else 0
        channels = layer(float(real), lower, lower + 700, zero=int(rng.integers(-20, 20)))
        classes += certify(channels, bits).classes
        if tried(channels, bits, signed=signed):
            assert classes[-1] is not Class.D, real
    assert (Class.D in classes) == signed
    assert set(classes) != {Class.D}
