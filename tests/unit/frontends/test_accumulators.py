"""Floating-point accumulators equal exact integers."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.frontends.calibration import SeededRandom, weight_quantiles
from penstock.ir.tensor import Array, Region
from penstock.opkit.layers import exact_dtype
from penstock.opkit.sliding import Window
from penstock.ops import fully_connected
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.fully_connected import FullyConnected


def drawn(*shape: int) -> Array:
    return np.random.default_rng(shape).integers(-128, 128, shape).astype(np.int8)


def slow_convolution(x: Array, zero: int, w: Array, rows: Window, columns: Window) -> Array:
    """Straight from the definition, in int64, with groups."""
    n, h, wide, channels = x.shape
    outputs, sizes, _, depth = w.shape
    width = outputs // (channels // depth)
    y = np.zeros((n, rows.outputs(h), columns.outputs(wide), outputs), np.int64)
    for b, i, j, o in np.ndindex(*y.shape):
        for k in range(sizes):
            for m in range(w.shape[2]):
                row = i * rows.stride - rows.before + k * rows.dilation
                column = j * columns.stride - columns.before + m * columns.dilation
                if 0 <= row < h and 0 <= column < wide:
                    first = o // width * depth
                    taken = x[b, row, column, first : first + depth].astype(np.int64) - zero
                    y[b, i, j, o] += taken @ w[o, k, m].astype(np.int64)
    return y


@pytest.mark.parametrize("depth", [2, 4])
def test_a_convolution_is_its_definition(depth: int) -> None:
    x, w = drawn(2, 6, 5, 4), drawn(6, 3, 2, depth)
    rows, columns = Window(3, 2, 1, 1, 1), Window(2, 1, 2, 0, 1)
    exact = slow_convolution(x, -5, w, rows, columns)
    found = Conv2D(rows, columns).sums(x, -5, w, Region.whole(exact.shape))
    assert np.array_equal(found, exact)
    some = Region.of((1, 2), (0, 2), (1, 3), (1, 5))
    assert np.array_equal(Conv2D(rows, columns).sums(x, -5, w, some), exact[some.slices])


def test_a_depthwise_convolution_is_a_grouped_one() -> None:
    x, w = drawn(1, 6, 5, 3), drawn(1, 3, 3, 6)
    rows, columns = Window.same(6, 3, 2), Window.same(5, 3)
    grouped = np.transpose(w, (3, 1, 2, 0))
    exact = slow_convolution(x, 7, grouped, rows, columns)
    found = DepthwiseConv2D(rows, columns, 2).sums(x, 7, w, Region.whole(exact.shape))
    assert np.array_equal(found, exact)


def test_a_dense_layer_is_exact_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fully_connected, "CHUNK_ELEMENTS", 10_000)
    x, w = drawn(2, 3_000), drawn(10, 3_000)
    exact = (x.astype(np.int64) + 128) @ w.astype(np.int64).T
    found = FullyConnected().sums(x, -128, w, Region.whole(exact.shape))
    assert np.array_equal(found, exact)


def test_single_precision_is_taken_only_where_it_is_exact() -> None:
    for dtype, largest in ((np.int8, 255 * 128), (np.int16, 255 * 255)):
        most, w = 2**24 // largest, np.zeros(1, dtype)
        assert exact_dtype(most, w) is np.float32
        assert exact_dtype(most + 1, w) is np.float64


def test_no_quantile_of_the_weights_is_near_a_rounding_boundary() -> None:
    fractions = weight_quantiles() % 1.0
    assert np.abs(fractions - 0.5).min() > 1e-9


def test_drawn_weights_are_normal_and_use_the_range() -> None:
    weights = SeededRandom(0, 1).weights((100_000,)).astype(float)
    assert abs(weights.mean()) < 0.5
    assert weights.std() == pytest.approx(127 / 3, rel=0.01)
    assert (weights.min(), weights.max()) == (-127, 127)


def test_drawn_numbers_are_the_same_for_ever() -> None:
    assert SeededRandom(0, 1).words(5).tolist() == [5669, 34220, 60386, 58309, 56268]
    assert SeededRandom(0, 1).weights((5,)).tolist() == [-58, 2, 60, 52, 45]
