"""StripeConfig: counts against a walk over every stripe, propagation against regions."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.ir.affine import Affine
from penstock.ir.tensor import Region
from penstock.scheduling.model.stripe import StripeConfig

many = settings(max_examples=10 * settings().max_examples)
strides = st.one_of(
    st.integers(0, 9), st.builds(Fraction, st.integers(0, 40), st.sampled_from((2, 3, 4, 16)))
)


@st.composite
def configs(draw: st.DrawFn) -> StripeConfig:
    rank = draw(st.integers(1, 2))

    def numbers(lower: int, upper: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(lower, upper)) for _ in range(rank))

    return StripeConfig(
        shape=numbers(0, 12),
        extent=numbers(0, 25),
        strides=tuple(draw(strides) for _ in range(rank)),
        order=numbers(0, rank),
        stripes=numbers(0, 14),
        offset=numbers(-20, 8),
    )


def walked(config: StripeConfig, axis: int, sliding_window: bool) -> list[int]:
    """Sizes of all stripes along an axis, one by one."""
    sizes: list[int] = []
    covered = 0
    for i in range(config.stripes[axis]):
        start = math.floor(config.offset[axis] + i * config.strides[axis])
        indices = {x for x in range(start, start + config.shape[axis])}
        indices &= set(range(covered if sliding_window else 0, config.extent[axis]))
        covered = max(covered, start + config.shape[axis])
        if indices:
            sizes.append(len(indices))
    return sizes


@many
@given(config=configs(), sliding_window=st.booleans())
def test_stripes_are_counted_as_a_walk_over_them_counts(
    config: StripeConfig, sliding_window: bool
) -> None:
    sizes = [walked(config, axis, sliding_window) for axis in range(len(config.shape))]
    assert config.count_stripes(sliding_window) == Counter(product(*sizes))
    regions = list(config.regions(sliding_window))
    assert Counter(region.shape for region in regions) == Counter(product(*sizes))
    nest = sorted(range(len(config.shape)), key=lambda axis: config.order[axis])
    starts = [tuple(region.lower[axis] for axis in nest) for region in regions]
    assert starts == sorted(starts)


@given(config=configs())
def test_a_sliding_window_computes_every_element_once(config: StripeConfig) -> None:
    config = replace(config, shape=tuple(n + 10 for n in config.shape))  # no gaps
    once = config.count_stripes(sliding_window=True)
    covered = [
        {
            x
            for i in range(config.stripes[axis])
            for x in range(start(config, axis, i), end(config, axis, i))
        }
        & set(range(config.extent[axis]))
        for axis in range(len(config.shape))
    ]
    assert sum(math.prod(shape) * count for shape, count in once.items()) == math.prod(
        map(len, covered)
    )


def start(config: StripeConfig, axis: int, i: int) -> int:
    return math.floor(config.offset[axis] + i * config.strides[axis])


def end(config: StripeConfig, axis: int, i: int) -> int:
    return start(config, axis, i) + config.shape[axis]


@given(
    shape=st.integers(1, 5),
    stride=st.integers(1, 3),
    extra=st.integers(0, 4),
    pad=st.integers(0, 2),
)
def test_a_stripe_propagates_to_the_box_that_it_reads(
    shape: int, stride: int, extra: int, pad: int
) -> None:
    form = Affine.diagonal((stride,), (extra,), (-pad,))
    config = StripeConfig((shape,), (20,), (shape,), (1,), (-(-20 // shape),), (0,))
    read = config.propagate(form)
    for i in range(config.stripes[0]):
        box = form.apply(Region((i * shape,), ((i + 1) * shape,)))
        start = read.offset[0] + i * read.strides[0]
        assert box == Region((int(start),), (int(start) + read.shape[0],))


def test_strides_of_bricks_are_fractions() -> None:
    form = Affine.of_augmented([[1 / 16, 0], [0, 1]], [0])
    config = StripeConfig((36,), (72,), (36,), (4,), (2,), (0,))
    expected = StripeConfig((3,), (5,), (Fraction(9, 4),), (4,), (2,), (0,))
    assert config.propagate(form) == expected


def test_what_has_no_stripe_has_one_and_no_place_in_the_loops() -> None:
    config = StripeConfig((4, 4), (8, 8), (4, 4), (1, 2), (2, 0), (0, 0))
    read = config.propagate(Affine.of_augmented([[0, 0, 7], [0, 1, 0], [0, 0, 1]], [0, 3]))
    assert read == StripeConfig((7, 4), (7, 8), (0, 4), (0, 2), (1, 1), (0, 3))


def test_members_of_other_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="of 2 axes have 2, 1, 2, 2, 2 numbers"):
        StripeConfig((4, 4), (8, 8), (4,), (1, 2), (2, 2), (0, 0))


def test_stripes_that_run_backwards_are_refused() -> None:
    config = StripeConfig((4,), (8,), (-4,), (1,), (2,), (4,))
    with pytest.raises(UsageError, match="-4 elements apart along axis 0"):
        config.count_stripes()
