"""TFLite operators that converters write around networks: numbers from shapes, repeated numbers,
bins, best elements, volumes; against their definitions."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from foreign_nodes import counting, graph_of, int8, ints, result
from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.open import parse
from penstock.ir.foreign import Attribute, ForeignNode
from penstock.ir.graph import Graph, Value
from penstock.ir.op import Site
from penstock.ir.tensor import Array, Data, DType, Quantisation, Region, TensorType
from penstock.ops.registry import foreign_names
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite


def plain(name: str, dtype: DType, *shape: int) -> Value:
    """A computed value without quantisation."""
    return Value(name, TensorType(shape, dtype))


def constant(name: str, elements: Array) -> Value:
    """A constant of plain numbers."""
    return Value.constant(name, elements)


def known(kind: str, inputs: tuple[Value, ...], output: Value) -> Array:
    """The output of a node whose result depends on no element of a computed input."""
    node = ForeignNode(kind, f"node 0 {kind}", inputs, (output,), {})
    *views, made = foreign_names()[kind](node)
    assert all(view.op.ALIAS for view in views)
    arrays = tuple(v.data.array(v.type) for v in made.inputs if v.data is not None)
    types, constants = zip(*((v.type, v.data) for v in made.inputs), strict=True)
    site = Site(types, output.type, constants)
    return made.op.evaluate(site, arrays, Region.whole(output.type.shape))


def drawn(*shape: int) -> Array:
    return np.random.default_rng(shape).normal(0, 1, shape).astype(np.float32)


def test_the_rank_of_a_tensor_is_known() -> None:
    found = known("RANK", (int8("x", 2, 3, 4),), plain("y", DType.INT32))
    assert found.item() == 3


@pytest.mark.parametrize(("start", "limit", "step"), [(0, 5, 1), (3, 10, 3), (4, -3, -2)])
def test_a_range_of_constants_is_known(start: int, limit: int, step: int) -> None:
    expected = np.arange(start, limit, step, dtype=np.int32)
    numbers = tuple(ints(f"c{k}", n) for k, n in enumerate((start, limit, step)))
    found = known("RANGE", numbers, plain("y", DType.INT32, len(expected)))
    np.testing.assert_array_equal(found, expected)


def test_the_shape_to_which_shapes_broadcast_is_known() -> None:
    shapes = (ints("a", (4, 1, 3)), ints("b", (5, 1)))
    y = plain("y", DType.INT32, 3)
    assert known("BROADCAST_ARGS", shapes, y).tolist() == [4, 5, 3]
    with pytest.raises(UnsupportedError, match="do not broadcast"):
        known("BROADCAST_ARGS", (ints("a", (4,)), ints("b", (5,))), y)


def test_a_number_is_at_every_place() -> None:
    filled = graph_of(
        "FILL",
        (ints("dims", (2, 3)), plain("x", DType.FLOAT32)),
        (plain("y", DType.FLOAT32, 2, 3),),
    )
    np.testing.assert_array_equal(result(filled, np.float32(1.5))[0], np.full((2, 3), 1.5))
    zeros = known("ZEROS_LIKE", (int8("x", 2, 3),), int8("y", 2, 3, zero=3))
    np.testing.assert_array_equal(zeros, np.zeros((2, 3)))  # elements, whatever they represent


def test_elements_are_put_into_bins() -> None:
    x = np.array([[-1, 0.5, 0.50001], [2, 2.5, 9]], np.float32)
    bounds: Attribute = (0.5, 2.0, 2.5)
    graph = graph_of(
        "BUCKETIZE", (plain("x", DType.FLOAT32, 2, 3),), (plain("y", DType.INT32, 2, 3),),
        boundaries=bounds,
    )  # fmt: skip
    expected = np.searchsorted(np.float32(bounds), x, side="right")
    np.testing.assert_array_equal(result(graph, x)[0], expected)


def test_the_best_elements_come_first_and_equal_ones_in_order() -> None:
    x = counting(3, 7) * 5 % 13 - 4
    outputs = (int8("values", 3, 4), plain("indices", DType.INT32, 3, 4))
    graph = graph_of("TOPK_V2", (int8("x", 3, 7), ints("k", 4)), outputs)
    values, indices = result(graph, x.astype(np.int8))
    order = np.argsort(-x.astype(int), axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("padding", [0, 1])
def test_a_convolution_of_volumes_is_a_sum_over_its_window(padding: int) -> None:
    x, w, b = drawn(1, 4, 5, 6, 2), drawn(2, 3, 2, 2, 3), drawn(3)
    strides, sizes = (2, 1, 2), (2, 3, 2)
    wide, shape = x, []
    pads = []
    for extent, size, stride in zip(x.shape[1:4], sizes, strides, strict=True):
        outputs = -(-extent // stride) if padding == 0 else (extent - size) // stride + 1
        beyond = max(0, (outputs - 1) * stride + size - extent) if padding == 0 else 0
        pads.append((beyond // 2, beyond - beyond // 2))
        shape.append(outputs)
    wide = np.pad(x, ((0, 0), *pads, (0, 0)))
    expected = np.zeros((1, *shape, 3))
    for place in np.ndindex(*shape):
        box = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, strides, sizes, strict=True))
        expected[0, *place] = np.tensordot(wide[0][box], w, 4) + b
    axes = dict(zip("dhw", strides, strict=True))
    graph = graph_of(
        "CONV_3D",
        (plain("x", DType.FLOAT32, *x.shape), constant("w", w), constant("b", b)),
        (plain("y", DType.FLOAT32, *expected.shape),),
        padding=padding,
        fused_activation_function=1,
        **{f"stride_{axis}": stride for axis, stride in axes.items()},
    )
    np.testing.assert_allclose(result(graph, x)[0], np.maximum(expected, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_same", [True, False])
def test_a_transposed_convolution_of_volumes_adds_windows(is_same: bool) -> None:
    x, w, b = drawn(1, 3, 4, 2, 2), drawn(3, 2, 2, 3, 2), drawn(3)
    strides, sizes = (2, 1, 2), (3, 2, 2)
    extents = list(zip(x.shape[1:4], sizes, strides, strict=True))
    full = [(extent - 1) * stride + size for extent, size, stride in extents]
    shape = [extent * stride if is_same else f
             for (extent, _, stride), f in zip(extents, full, strict=True)]  # fmt: skip
    whole = np.zeros((1, *np.maximum(full, shape), 3))
    for place in np.ndindex(*x.shape[1:4]):
        box = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, strides, sizes, strict=True))
        whole[0][box] += w @ x[0, *place]
    starts = [max(f - y, 0) // 2 for f, y in zip(full, shape, strict=True)]
    kept = tuple(slice(a, a + y) for a, y in zip(starts, shape, strict=True))
    expected = whole[0][kept][None] + b
    graph = graph_of(
        "CONV_3D_TRANSPOSE",
        (constant("shape", np.array([1, *shape, 3], np.int32)), constant("w", w),
         plain("x", DType.FLOAT32, *x.shape), constant("b", b)),
        (plain("y", DType.FLOAT32, *expected.shape),),
        padding=int(not is_same),
        fused_activation_function=1,
        **{f"stride_{axis}": stride for axis, stride in zip("dhw", strides, strict=True)},
    )  # fmt: skip
    np.testing.assert_allclose(result(graph, x)[0], np.maximum(expected, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scales", [(0.01,), (0.01, 0.02, 0.03)])
def test_inputs_of_a_convolution_have_symmetric_steps_if_channels_share_a_scale(
    scales: tuple[float, ...],
) -> None:
    x = drawn(1, 3, 4, 2) + 1
    w = np.random.default_rng(7).integers(-127, 128, (3, 1, 1, 2)).astype(np.int8)
    if len(scales) == 1:
        step, zero = np.abs(x).max() / 127, 0
    else:
        lower, upper = min(x.min(), 0), max(x.max(), 0)
        step = (upper - lower) / 255
        zero = round(-128 - lower / step)
    steps = np.rint(x / step) + (zero if len(scales) > 1 else 0)
    sums = (np.clip(steps, -128, 127) - zero) @ w[:, 0, 0].T.astype(float)
    quantisation = Quantisation(scales, (0,) * len(scales), 0 if len(scales) > 1 else None)
    weights = Value("w", TensorType(w.shape, DType.INT8, quantisation), Data.of(w))
    graph = graph_of(
        "CONV_2D", (plain("x", DType.FLOAT32, *x.shape), weights),
        (plain("y", DType.FLOAT32, 1, 3, 4, 3),), stride_h=1, stride_w=1, padding=1,
    )  # fmt: skip
    expected = sums * np.broadcast_to(scales, (3,)) * step
    np.testing.assert_allclose(result(graph, x)[0], expected, rtol=1e-6)


def test_gelu_of_real_numbers_keeps_the_digits_of_small_results() -> None:
    x = np.linspace(-5, 5, 1001, dtype=np.float32)[None]
    shape = (plain("x", DType.FLOAT32, *x.shape),), (plain("y", DType.FLOAT32, *x.shape),)
    found = result(graph_of("GELU", *shape, approximate=False), x)[0].astype(np.float64)
    exact = np.array([[0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x[0].astype(np.float64)]])
    assert (np.abs(found - exact) <= 24 * np.spacing(np.abs(exact).astype(np.float32))).all()


def test_the_number_of_best_elements_is_one_number() -> None:
    outputs = plain("y", DType.FLOAT32, 2, 2), plain("z", DType.INT32, 2, 2)
    with pytest.raises(ModelError, match="there are 2 numbers of elements"):
        graph_of("TOPK_V2", (plain("x", DType.FLOAT32, 2, 3), ints("k", (2, 2))), outputs)


def test_a_number_has_no_extents_to_state() -> None:
    tensors = (
        TensorSpec("x", (1, 1), "int32"),
        TensorSpec("extents", (0,), "int32"),
        TensorSpec("y", (), "int32"),
    )
    raw = write_tflite(tensors, (OperatorSpec("RESHAPE", (0, 1), (2,)),), (0,), (2,))
    assert parse(raw, "m.tflite").outputs[0].shape == ()


def test_a_squeezed_tensor_has_the_shape_that_its_axes_leave() -> None:
    tensors = (TensorSpec("x", (1, 1, 3), "int32"), TensorSpec("y", (1, 3), "int32"))

    def squeezed(axes: tuple[int, ...]) -> Graph:
        node = OperatorSpec("SQUEEZE", (0,), (1,), {"squeeze_dims": axes})
        return parse(write_tflite(tensors, (node,), (0,), (1,)), "m.tflite")

    assert squeezed((0,)).outputs[0].shape == squeezed((-2,)).outputs[0].shape == (1, 3)
    for axes, left in (((), [3]), ((0, 1), [3])):
        with pytest.raises(ModelError, match=re.escape(f"has shape [1, 3], must have {left}")):
            squeezed(axes)
