"""Requantisation of two short products against the reference, accumulator by accumulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.choices import Rounding
from penstock.requantisation.clamped import ClampedForm, certify_clamped, proved
from penstock.requantisation.form import Channels, Class
from requantisation_judge import by_hand, layer, reals, signed


def by_registers(form: ClampedForm, accumulators: range) -> list[int]:
    """The form, an accumulator at a time, as the instructions are specified."""
    found: list[int] = []
    for accumulator in accumulators:
        a = signed(accumulator - int(form.origin[0]))
        a = min(max(a, -1), int(form.highest[0]))
        t = signed(a * int(form.low[0]))
        if signed(a - int(form.turn[0])) < 0:
            t = signed(t + int(form.correction[0]))
        t = signed(t + int(form.offset[0])) >> int(form.bits[0])
        byte = (int(form.base[0]) + a * int(form.high[0]) + t & 0xFFFFFFFF) >> 24
        found.append(byte - 256 if byte > 127 else byte)
    return found


@settings(deadline=None, max_examples=60)
@given(
    real=reals,
    lower=st.integers(-40_000, 40_000),
    length=st.integers(1, 3_000),
    zero=st.integers(-128, 127),
    relu=st.booleans(),
    rounding=st.sampled_from(Rounding),
)
def test_a_certified_form_equals_the_reference_for_every_accumulator(
    real: float, lower: int, length: int, zero: int, relu: bool, rounding: Rounding
) -> None:
    bounds = (zero, 127) if relu else (-128, 127)
    channels = layer(real, lower, lower + length, zero, bounds, rounding)
    certificate = certify_clamped(channels)
    every = range(lower, lower + length)
    assert (certificate.form is None) == (Class.D in certificate.classes)
    if certificate.form is not None:
        assert by_registers(certificate.form, every) == by_hand(channels, every)


@settings(deadline=None, max_examples=60)
@given(
    real=st.floats(1e-3, 0.9),
    lower=st.integers(-9_000, 0),
    zero=st.integers(-128, 127),
    low=st.integers(-3, 3),
    offset=st.integers(-30, 30),
    correction=st.integers(-30, 30),
    highest=st.integers(-1, 1),
    turn=st.integers(-1, 1),
)
def test_a_form_is_proved_only_where_it_is_right(
    real: float,
    lower: int,
    zero: int,
    low: int,
    offset: int,
    correction: int,
    highest: int,
    turn: int,
) -> None:
    """Forms near a good one, most of them wrong: what the proof takes is right everywhere; what is
    right everywhere is refused only where its value could fall."""
    channels = layer(real, lower, lower + 2_500, zero)
    good = certify_clamped(channels).form
    if good is None:
        return
    unit = np.maximum(good.factor >> 5, 1)
    form = replace(
        good,
        low=good.low + low,
        offset=good.offset + offset * unit,
        correction=good.correction + correction * unit,
        highest=good.highest + highest,
        turn=good.turn + turn,
    )
    every = range(lower, lower + 2_500)
    right = by_registers(form, every) == by_hand(channels, every)
    taken = bool(proved(form, channels, channels.thresholds())[0])
    assert taken == (right and bool(form.monotone(channels)[0]))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"offset": -(1 << 27)}, "rounded elsewhere"),
        ({"base": 1 << 23}, "rounded half a step higher"),
        ({"bits": 1}, "a step twice as large"),
        ({"highest": -1}, "the greatest output is never reached"),
        ({"correction": 1 << 24}, "ties of negative numbers rounded up"),
        ({"turn": 300}, "corrected where outputs are positive"),
    ],
)
def test_wrong_cheap_forms_are_refused(change: dict[str, int], why: str) -> None:
    channels = layer(0.0041, -100_000, 100_000, zero=3)
    certificate = certify_clamped(channels)
    assert certificate.classes == (Class.C,)
    form = certificate.form
    assert form is not None
    assert proved(form, channels, channels.thresholds())[0]
    wrong = replace(form, **{name: getattr(form, name) + by for name, by in change.items()})
    assert not proved(wrong, channels, channels.thresholds())[0], why


def test_a_product_that_wraps_is_refused() -> None:
    """Eight bits more of fraction than a register has room for."""
    channels = layer(0.0041, -100_000, 100_000, zero=3)
    form = certify_clamped(channels).form
    assert form is not None
    wide = replace(form, bits=form.bits + 8, low=form.factor << 8, high=form.high * 0)
    wide = replace(wide, offset=form.offset << 8, correction=form.correction << 8)
    assert not proved(wide, channels, channels.thresholds())[0]


def test_a_clamp_to_one_output_is_served() -> None:
    channels = layer(0.3, -100, 100, zero=127, bounds=(127, 127))
    form = certify_clamped(channels).form
    assert form is not None
    assert set(by_registers(form, range(-100, 100))) == {127}


def test_channels_of_a_layer_are_served_each_in_its_way() -> None:
    one, other = layer(2.0**-8, -30_000, 30_000), layer(2.0**-8, 0, 30_000)
    both = Channels(
        *(np.concatenate(pair) for pair in zip(_arrays(one), _arrays(other), strict=True)),
        *(0, -128, 127),
    )
    certificate = certify_clamped(both)
    assert certificate.classes == (Class.C, Class.B)
    assert certificate.form is not None
    assert certificate.form.correction[0] != 0 == certificate.form.correction[1]


def _arrays(channels: Channels) -> tuple[np.ndarray, ...]:
    return (channels.multiplier, channels.shift, channels.lower, channels.upper)
