"""Numbers that exceed 32 bits are refused before C is generated."""

from __future__ import annotations

import numpy as np
import pytest

from foreign_nodes import graph_of, int8, ints, result
from penstock.errors import ModelError, UnsupportedError
from penstock.ir.foreign import Attribute
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, Data, DType, Quantisation, TensorType

CONV: dict[str, Attribute] = {"padding": 1, "stride_h": 1, "stride_w": 1}


def weights(elements: Array, scales: tuple[float, ...] = (0.5,), zero: int = 0) -> Value:
    quantisation = Quantisation(scales, (zero,) * len(scales), 0 if len(scales) > 1 else None)
    array = elements.astype(np.int8)
    return Value("w", TensorType(array.shape, DType.INT8, quantisation), Data.of(array))


def conv(w: Value, bias: Value | None = None, scale: float = 0.5, **more: Attribute) -> None:
    inputs = (int8("x", 1, 4, 4, 1), w, *([bias] if bias else []))
    graph_of("CONV_2D", inputs, (int8("y", 1, 4, 4, 1, scale=scale),), **{**CONV, **more})


ONE = np.ones((1, 1, 1, 1))


def test_a_layer_whose_numbers_fit_is_taken() -> None:
    conv(weights(ONE), ints("b", [2**31 - 1 - 131]), scale=0.5)


def test_a_bias_from_which_accumulators_leave_int32_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="reach from 2147483393 to 2147483648") as caught:
        conv(weights(ONE), ints("b", [2**31 - 124]))
    assert caught.value.code == "model-025"


def test_accumulators_that_are_multiplied_by_zero_may_leave_int32() -> None:
    """TensorFlow Lite Micro: a multiplier below 2**-32 is 0, so the output is the zero point."""
    two = weights(np.ones((2, 1, 1, 1)), (1e-24, 0.5))
    x, y = int8("x", 1, 4, 4, 1), int8("y", 1, 4, 4, 2)
    graph = graph_of("CONV_2D", (x, two, ints("b", [-(2**31) + 1, 7])), (y,), **CONV)
    (outputs,) = result(graph, np.full((1, 4, 4, 1), -128, np.int8))
    assert np.unique(outputs[..., 0]) == [3]
    bias = graph.nodes[0].inputs[2]
    assert bias.data is not None
    assert bias.data.array(bias.type).tolist() == [0, 7]


def test_scales_that_carry_accumulators_out_of_int32_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="brought to the output's scale, must stay below"):
        conv(weights(ONE), ints("b", [2**20]), scale=2.0**-13)


def test_scales_whose_left_shift_overflows_are_refused() -> None:
    """2**17 + 255 times 12,288 stays below 2**31, times 2**14 does not: TensorFlow's C is undefined
    there, onnxruntime saturates."""
    with pytest.raises(UnsupportedError, match=r"reach 2\.15e\+09 when they are brought"):
        conv(weights(ONE), ints("b", [2**17]), scale=0.25 / 12_288)


def test_a_multiplier_above_31_bits_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"is 4\.295e\+09, must be below 2\*\*31"):
        conv(weights(ONE, (2.0**10,)), scale=2.0**-23)


@pytest.mark.parametrize(
    ("w", "message"),
    [
        (weights(ONE, zero=3), "weights have zero point 3, must be 0"),
        (Value("w", TensorType((1, 1, 1, 1), DType.INT8)), "weights have no quantisation"),
        (
            Value(
                "w",
                TensorType((1, 1, 1, 3), DType.INT8, Quantisation((1.0, 1.0, 1.0), (0, 0, 0), 3)),
            ),
            "3 scales along axis 3",
        ),
        (int8("w", 1, 1, 1, 1, zero=0), 'weights "w" are computed, must be constant'),
    ],
)
def test_weights_that_are_not_the_references_are_refused(w: Value, message: str) -> None:
    x, y = int8("x", 1, 4, 4, w.type.shape[3]), int8("y", 1, 4, 4, 1)
    with pytest.raises(ModelError) as caught:
        graph_of("CONV_2D", (x, w), (y,), **CONV)
    assert message in str(caught.value)


def test_a_dilation_that_16_bits_cannot_hold_is_refused() -> None:
    wide = weights(np.ones((1, 1, 3, 1)))
    with pytest.raises(ModelError, match=r"dilation 1073741823.*must each be below 32768"):
        conv(wide, padding=0, dilation_w_factor=2**30 - 1)


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "message"),
    [
        ("MUL", (int8("a", 4, scale=2.0**20), int8("b", 4, scale=2.0**20)), 0.5, "up to 65025"),
        ("ADD", (int8("a", 4, scale=2.0**24), int8("b", 4)), 0.5, "must stay below 2**31"),
        ("SUM", (int8("x", 1, 2**24), ints("axes", (1,))), 0.5, "up to 4278190080"),
        ("BATCH_MATMUL", (int8("a", 1, 2**16), int8("b", 2**16, 1)), 0.5, "up to 4261478400"),
        ("QUANTIZE", (int8("x", 4, scale=2.0**30),), 2.0**-30, "must be below 2**31"),
        ("QUANTIZE", (int8("x", 4, scale=2.0**122),), 0.5, "must be within [9.094947017"),
        ("QUANTIZE", (int8("x", 4),), 2.0**-41, "has scale 4.547473508864641e-13, must be"),
        ("QUANTIZE", (int8("x", 4, zero=128),), 0.5, "zero point 128, must be within [-128, 128)"),
    ],
)
def test_scales_out_of_proportion_are_refused(
    kind: str, inputs: tuple[Value, ...], output: float, message: str
) -> None:
    shape = {"SUM": (1,), "BATCH_MATMUL": (1, 1)}.get(kind, (4,))
    with pytest.raises(ModelError) as caught:
        graph_of(kind, inputs, (int8("y", *shape, scale=output),))
    assert message in str(caught.value)


def test_vectors_whose_exponentials_do_not_add_up_are_refused() -> None:
    y = int8("y", 1, 5000, scale=1 / 256, zero=-128)
    with pytest.raises(UnsupportedError, match="vectors have 5000 elements, at most 4095"):
        graph_of("SOFTMAX", (int8("x", 1, 5000),), (y,), beta=1.0)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_a_softmax_of_an_absurd_beta_is_refused(beta: float) -> None:
    y = int8("y", 1, 5, scale=1 / 256, zero=-128)
    with pytest.raises(UnsupportedError, match="must be a positive number"):
        graph_of("SOFTMAX", (int8("x", 1, 5),), (y,), beta=beta)


def test_tables_that_would_list_a_million_rows_are_refused_before_they_are_made() -> None:
    inputs = (int8("x", 1, 2, 2, 1), ints("size", (2**30, 1)))
    with pytest.raises(ModelError, match="rows and extents must be at most 1048576"):
        graph_of("RESIZE_NEAREST_NEIGHBOR", inputs, (int8("y", 1, 2**30, 1, 1),))


def test_an_empty_tensor_is_refused() -> None:
    with pytest.raises(ModelError, match=r"has shape \[1, 0\], must not be empty"):
        graph_of("RELU", (int8("x", 1, 0),), (int8("y", 1, 0),))


def test_an_int8_tensor_without_a_scale_is_refused() -> None:
    plain = Value("y", TensorType((4,), DType.INT8))
    with pytest.raises(ModelError, match='tensor "y" has no quantisation'):
        graph_of("PAD", (int8("x", 4), ints("p", ((0, 0),))), (plain,))


def test_exponentials_beyond_single_precision_saturate() -> None:
    x, y = int8("x", 4, scale=2.0**39), int8("y", 4, scale=2.0**-40)
    graph = graph_of("EXP", (x,), (y,))
    (y_elements,) = result(graph, np.array([-128, 2, 3, 127], np.int8))
    assert y_elements.tolist() == [3, 3, 127, 127]
