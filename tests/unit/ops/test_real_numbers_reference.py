"""Operators of TFLite on float32, against TensorFlow Lite Micro: layers and pools to the bit, what
calls functions of the C library within a few units in the last place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from penstock.frontends.open import parse
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import run_tflite_micro
from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite

pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")

IMAGE = (1, 6, 5, 4)
WINDOW: dict[str, OptionValue] = {"stride_h": 2, "stride_w": 1, "padding": 0}
LAYER: dict[str, OptionValue] = {
    **WINDOW,
    "fused_activation_function": 1,
    "dilation_h_factor": 1,
    "dilation_w_factor": 1,
}
POOL: dict[str, OptionValue] = {
    **WINDOW,
    "filter_height": 2,
    "filter_width": 3,
    "fused_activation_function": 3,
}


def reals(*shape: int) -> Array:
    return np.random.default_rng(shape).normal(0, 1, shape).astype(np.float32)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


Case = tuple[str, tuple[Array, ...], tuple[int, ...], Mapping[str, OptionValue]]
EXACT: tuple[Case, ...] = (
    ("CONV_2D", (reals(7, 3, 2, 4), reals(7)), (1, 3, 5, 7), LAYER),
    ("DEPTHWISE_CONV_2D", (reals(1, 3, 2, 8), reals(8)), (1, 3, 5, 8),
     {**LAYER, "depth_multiplier": 2}),
    ("FULLY_CONNECTED", (reals(5, 120), reals(5)), (1, 5), {"fused_activation_function": 1}),
    ("AVERAGE_POOL_2D", (), (1, 3, 5, 4), POOL),
    ("MAX_POOL_2D", (), (1, 3, 5, 4), POOL),
    ("BATCH_MATMUL", (reals(1, 6, 4, 3),), (1, 6, 5, 3), {}),
    ("MEAN", (ints(1, 2),), (1, 4), {"keep_dims": False}),
    ("SUM", (ints(3),), (1, 6, 5, 1), {"keep_dims": True}),
    ("REDUCE_MAX", (ints(2),), (1, 6, 4), {"keep_dims": False}),
    ("REDUCE_MIN", (ints(1, 3),), (1, 5), {"keep_dims": False}),
    ("PRELU", (reals(1, 1, 4),), IMAGE, {}),
    ("LEAKY_RELU", (), IMAGE, {"alpha": 0.3}),
    ("ADD_N", (reals(*IMAGE), reals(*IMAGE)), IMAGE, {}),
    ("PADV2", (ints(0, 0, 1, 0, 0, 2, 0, 0).reshape(4, 2), np.array(1.5, np.float32)),
     (1, 7, 7, 4), {}),
    ("RESIZE_BILINEAR", (ints(9, 7),), (1, 9, 7, 4), {"half_pixel_centers": True}),
)  # fmt: skip
CLOSE: tuple[Case, ...] = (
    ("SIN", (), IMAGE, {}),
    ("COS", (), IMAGE, {}),
    ("L2_NORMALIZATION", (), IMAGE, {}),
    ("HARD_SWISH", (), IMAGE, {}),
)


def both(case: Case) -> tuple[Array, Array]:
    """What penstock and the reference compute."""
    operator, constants, shape, options = case
    x = reals(*IMAGE)
    tensors = [TensorSpec("x", IMAGE, "float32")]
    for k, array in enumerate(constants):
        tensors.append(TensorSpec(f"c{k}", array.shape, array.dtype.name, data=array))
    places = (*range(len(tensors)), len(tensors))
    tensors.append(TensorSpec("y", shape, "float32"))
    node = OperatorSpec(operator, places[:-1], places[-1:], options)
    raw = write_tflite(tuple(tensors), (node,), (0,), places[-1:])
    graph = parse(raw, "m.tflite")
    found = run_graph(graph, {graph.inputs[0].name: x})[graph.outputs[0].name]
    return found, run_tflite_micro(raw, (x,)).outputs[0]


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case[0])
def test_it_is_the_references_to_the_bit(case: Case) -> None:
    found, expected = both(case)
    assert np.unique(expected).size > 2
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", CLOSE, ids=lambda case: case[0])
def test_it_is_the_references_within_the_last_places(case: Case) -> None:
    found, expected = both(case)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
