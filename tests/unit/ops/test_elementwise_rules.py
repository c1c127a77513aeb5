"""Element-wise operators: refused nodes, and operators that TensorFlow Lite Micro lacks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.small_tensors import int8
from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.open import parse
from penstock.opkit.lookup import Lookup
from penstock.ops.unary import Exp, Gelu, Log, Rsqrt, Sqrt
from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite


def tensor(
    name: str, shape: tuple[int, ...] = (1, 4), scale: float = 0.1, zero_point: int = 0
) -> TensorSpec:
    return TensorSpec(name, shape, scales=(scale,), zero_points=(zero_point,))


def refusal(
    operator: str, *tensors: TensorSpec, options: dict[str, OptionValue] | None = None
) -> ModelError:
    """Why one operator is refused; the last tensor is its output."""
    inputs = tuple(range(len(tensors) - 1))
    node = OperatorSpec(operator, inputs, (len(inputs),), options or {})
    with pytest.raises(ModelError) as caught:
        parse(write_tflite(tensors, (node,), inputs, (len(inputs),)), "model")
    return caught.value


@pytest.mark.parametrize(
    ("operator", "needed"),
    [
        ("LOGISTIC", "1/256 and -128"),
        ("TANH", "1/128 and 0"),
        ("LOG_SOFTMAX", "1/16 and 127"),
        ("L2_NORMALIZATION", "1/128 and 0"),
    ],
)
def test_outputs_of_fixed_scale_are_refused_under_another(operator: str, needed: str) -> None:
    error = refusal(operator, tensor("x"), tensor("y", zero_point=3))
    assert isinstance(error, UnsupportedError)
    assert needed in error.what


def test_maximum_is_refused_where_scales_differ() -> None:
    error = refusal("MAXIMUM", tensor("a"), tensor("b", scale=0.2), tensor("y"))
    assert error.code == "model-023"
    assert "0.1" in error.what
    assert "0.2" in error.what


def test_a_comparison_of_scales_above_one_is_refused() -> None:
    y = TensorSpec("y", (1, 4), "bool")
    assert "below 1" in refusal("LESS", tensor("a", scale=2.0), tensor("b"), y).what


def test_quantize_to_another_type_is_refused() -> None:
    y = TensorSpec("y", (1, 4), "int64", (0.1,), (0,))
    error = refusal("QUANTIZE", tensor("x"), y)
    assert error.what == "QUANTIZE converts int8 to int64, which is not supported"


def test_an_output_without_scale_is_refused() -> None:
    error = refusal("RELU", tensor("x"), TensorSpec("y", (1, 4)))
    assert error.what == "output has no quantisation, must have a scale and a zero point"


def test_slopes_that_are_larger_than_the_input_are_refused() -> None:
    error = refusal("PRELU", tensor("x", (1, 4)), tensor("a", (3, 4)), tensor("y", (3, 4)))
    assert "must stretch to [1, 4]" in error.what


@pytest.mark.parametrize("missing", [0, 1])
def test_missing_operands_are_refused(missing: int) -> None:
    y = tensor("y")
    assert refusal("MUL", *[tensor("a")][missing:], y).code == "model-013"


def gelu(x: float) -> float:
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def gelu_by_tanh(x: float) -> float:
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize(
    ("op", "function", "out_scale", "out_zero"),
    [
        (Exp(), math.exp, 1.2, -128),
        (Gelu(), gelu, 0.03, -121),
        (Gelu(approximate=True), gelu_by_tanh, 0.03, -121),
    ],
)
def test_tables_in_single_precision_are_the_function_rounded(
    op: Lookup, function: Callable[[float], float], out_scale: float, out_zero: int
) -> None:
    x, y = int8(1, scale=0.04, zero=-10), int8(1, scale=out_scale, zero=out_zero)
    exact = [function(x.scale * (q + 10)) / y.scale + out_zero for q in range(-128, 128)]
    distance = np.abs(op.table(x, y) - np.clip(exact, -128, 127))
    assert distance.max() < 0.5001
    assert distance.max() > 0.4


def test_a_logarithm_is_the_smallest_element_where_it_has_no_value() -> None:
    x, y = int8(1, scale=0.04, zero=-10), int8(1, scale=0.05, zero=20)
    table = Log().table(x, y)
    assert set(table[: 128 - 10 + 1].tolist()) == {-128}
    exact = [math.log(x.scale * (q + 10)) / y.scale + 20 for q in range(-9, 128)]
    distance = np.abs(table[128 - 9 :] - np.clip(exact, -128, 127))
    assert 0.4 < distance.max() < 0.5001


def test_a_square_root_is_rounded_towards_zero_and_zero_where_it_has_no_value() -> None:
    x, y = int8(1, scale=0.02, zero=-100), int8(1, scale=0.009, zero=-120)
    table = Sqrt().table(x, y)
    assert set(table[: 128 - 100 + 1].tolist()) == {-120}
    exact = [math.sqrt(x.scale * (q + 100)) / y.scale for q in range(-99, 128)]
    np.testing.assert_array_equal(table[29:], np.clip(np.floor(exact) - 120, -128, 127))


def test_rsqrt_is_the_largest_element_where_it_has_no_value() -> None:
    table = Rsqrt().table(int8(1, zero=-100), int8(1, scale=0.05, zero=-128))
    assert set(table[: 128 - 100 + 1].tolist()) == {127}
    exact = 1 / math.sqrt(int8(1).scale * 100) / int8(1).scale - 128
    assert abs(table[128] - exact) <= 1
