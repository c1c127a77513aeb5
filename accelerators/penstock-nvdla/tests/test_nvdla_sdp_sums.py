"""Constants with which SDP adds two tensors: all pairs yield TFLite's element."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.ir.op import Site
from penstock.ir.tensor import DType, Quantisation, Region, TensorType
from penstock.opkit.activation import Activation
from penstock.ops.binary import Add, Sub
from penstock_nvdla.sdp_sums import find_sum, find_sum_in_y

scales = st.floats(0.01, 0.1)
zeros = st.integers(-128, 127)


def tensor(scale: float, zero: int) -> TensorType:
    """A tensor of all pairs of int8 values."""
    return TensorType((1, 256, 256, 1), DType.INT8, Quantisation((scale,), (zero,)))


@settings(max_examples=8)
@given(
    op=st.sampled_from((Add(), Sub(), Add(Activation.RELU))),
    first=scales,
    ratio=st.one_of(st.floats(0.3, 3), st.sampled_from((0.5, 1.0, 2.0))),
    zero=st.tuples(zeros, zeros),
    out=st.floats(0.7, 3),
    out_zero=zeros,
)
def test_all_pairs_yield_the_element_of_the_reference(
    op: Add | Sub, first: float, ratio: float, zero: tuple[int, int], out: float, out_zero: int
) -> None:
    inputs = tensor(first, zero[0]), tensor(first * ratio, zero[1])
    site = Site(inputs, tensor(first * out, out_zero), (None, None))
    params = dict(op.kernel(site).params)
    every = [one for one in (find_sum(params, 0), find_sum_in_y(params, 0)) if one is not None]
    values = np.arange(-128, 128, dtype=np.int8)
    pair = (np.repeat(values, 256), np.tile(values, 256))
    shaped = tuple(one.reshape(1, 256, 256, 1) for one in pair)
    expected = op.evaluate(site, shaped, Region.whole(site.output.shape))
    for found in every:
        np.testing.assert_array_equal(found.elements(), expected[0, ..., 0])


def test_usual_sums_are_proved() -> None:
    for ratio in (0.7, 1.0, 1.5):
        inputs = tensor(0.05, 3), tensor(0.05 * ratio, -7)
        site = Site(inputs, tensor(0.055, 11), (None, None))
        params = dict(Add().kernel(site).params)
        assert find_sum(params, 0) is not None
        assert find_sum_in_y(params, 0) is not None


def test_unit_y_proves_a_sum_that_the_other_units_do_not() -> None:
    """A sum of MobileNetV2 0.35 with images of 160 x 160 pixels."""
    params = {"zero0": -4, "multiplier0": 1915464137, "shift0": -1} | {
        **{"zero1": -1, "multiplier1": 1073741824, "shift1": 0, "sign1": 1},
        **{"out_zero": 0, "out_multiplier": 1613059802, "out_shift": -19},
        **{"least": -128, "most": 127},
    }
    assert find_sum(params, 0) is None
    assert find_sum_in_y(params, 0) is not None
