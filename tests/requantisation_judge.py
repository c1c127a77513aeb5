"""The reference's requantisation of single accumulators, in Python integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from penstock.choices import Rounding
from penstock.fixedpoint import quantise_multiplier
from penstock.requantisation.form import Channels


def layer(
    real: float,
    lower: int,
    upper: int,
    zero: int = 0,
    bounds: tuple[int, int] = (-128, 127),
    rounding: Rounding = Rounding.DOUBLE,
) -> Channels:
    """A layer of one channel."""
    pair = quantise_multiplier(real)
    arrays = (np.array([number], np.int64) for number in (*pair, lower, upper))
    return Channels(*arrays, zero, *bounds, rounding)


def together(layers: list[Channels]) -> Channels:
    """The channels of several layers as one layer."""
    names = ("multiplier", "shift", "lower", "upper")
    return replace(
        layers[0],
        **{name: np.concatenate([getattr(one, name) for one in layers]) for name in names},
    )


def by_hand(channels: Channels, accumulators: range) -> list[int]:
    """The reference for single accumulators, in Python integers."""
    multiplier, shift = int(channels.multiplier[0]), int(channels.shift[0])
    found: list[int] = []
    for accumulator in accumulators:
        if channels.rounding is Rounding.SINGLE:
            total = 31 - shift
            scaled = (accumulator * multiplier + (1 << (total - 1))) >> total
        else:
            high = (accumulator * (1 << max(shift, 0)) * multiplier + (1 << 30)) >> 31
            right = max(-shift, 0)
            sign = -1 if high < 0 else 1
            scaled = sign * ((abs(high) + (1 << right >> 1)) >> right)
        found.append(min(max(scaled + channels.zero, channels.least), channels.most))
    return found


def signed(word: int) -> int:
    return (word & 0xFFFFFFFF) - ((word & 0x80000000) << 1)


reals = st.one_of(
    st.floats(1e-6, 4.0),
    st.sampled_from((2.0**-8, 2.0**-1, 1.0, 0.75, 2.0**-20, 1 - 2.0**-31, 3.0, 2.0**-33, 0.0)),
)
