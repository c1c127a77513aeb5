"""TFLite's BITWISE_XOR, DYNAMIC_UPDATE_SLICE, FLOOR_MOD, GATHER of batches, REVERSE_SEQUENCE,
RIGHT_SHIFT, SCATTER_ND and SEGMENT_SUM, against their definition in NumPy: TensorFlow Lite Micro
lacks most of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from penstock.errors import UnsupportedError
from penstock.frontends.open import parse
from penstock.ir.graph import Graph
from penstock.ir.tensor import Array
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import run_tflite_micro
from tools.tflite_writer import OperatorSpec, OptionValue, TensorSpec, write_tflite


def model(
    operator: str,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    order: tuple[str, ...],
    output: TensorSpec,
    options: Mapping[str, OptionValue] = {},
) -> bytes:
    tensors = [TensorSpec(k, a.shape, a.dtype.name) for k, a in inputs.items()]
    tensors += [TensorSpec(k, a.shape, a.dtype.name, data=a) for k, a in constants.items()]
    names = [tensor.name for tensor in tensors]
    node = OperatorSpec(operator, tuple(map(names.index, order)), (len(tensors),), options)
    given = tuple(range(len(inputs)))
    return write_tflite((*tensors, output), (node,), given, (len(tensors),))


def computed(raw: bytes, inputs: Mapping[str, Array]) -> Array:
    graph: Graph = parse(raw, "m.tflite")
    return run_graph(graph, inputs)[graph.outputs[0].name]


def drawn(*shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(shape).normal(0, 9, shape).astype(dtype)


def test_remainders_of_real_numbers_are_the_references() -> None:
    pytest.importorskip("tflite_micro", reason="the extra 'reference' is not installed")
    given = {"a": drawn(2, 3, 4, 5), "b": drawn(2, 3, 4, 5)[::-1].copy()}
    raw = model("FLOOR_MOD", given, {}, ("a", "b"), TensorSpec("y", (2, 3, 4, 5), "float32"))
    expected = run_tflite_micro(raw, tuple(given.values())).outputs[0]
    assert np.unique(np.sign(expected)).size > 1
    np.testing.assert_array_equal(computed(raw, given), expected)


@pytest.mark.parametrize(("time", "batch"), [(1, 0), (0, 1)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_sequences_are_reversed(time: int, batch: int, dtype: str) -> None:
    x = drawn(4, 5, 3, dtype=dtype)
    lengths = np.array([1, 4, 2, 3, 3][: x.shape[batch]], np.int32)
    options: dict[str, OptionValue] = {"seq_dim": time, "batch_dim": batch}
    output = TensorSpec("y", x.shape, dtype)
    raw = model("REVERSE_SEQUENCE", {"x": x}, {"n": lengths}, ("x", "n"), output, options)
    expected = x.copy()
    for k, length in enumerate(lengths):
        at = (k, slice(0, length)) if batch == 0 else (slice(0, length), k)
        expected[at] = x[at][::-1]
    np.testing.assert_array_equal(computed(raw, {"x": x}), expected)


def test_sequences_along_other_axes_are_refused() -> None:
    x, lengths = drawn(2, 3, 4), np.array([1, 2], np.int32)
    options: dict[str, OptionValue] = {"seq_dim": 2, "batch_dim": 0}
    output = TensorSpec("y", x.shape, "float32")
    raw = model("REVERSE_SEQUENCE", {"x": x}, {"n": lengths}, ("x", "n"), output, options)
    with pytest.raises(UnsupportedError, match="axes are 2 and 0"):
        parse(raw, "m.tflite")


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("constant", [True, False])
def test_what_is_scattered_to_one_place_is_added(dtype: str, constant: bool) -> None:
    places = np.array([[3, 1], [0, 2], [3, 1], [4, 0]], np.int32)
    shape, updates = np.array([5, 3, 2], np.int32), drawn(4, 2, dtype=dtype)
    expected = np.zeros((5, 3, 2), dtype)
    for place, update in zip(places, updates, strict=True):
        expected[tuple(place)] += update
    inputs = {"u": updates} if constant else {"u": updates, "p": places}
    constants = {"p": places, "s": shape} if constant else {"s": shape}
    output = TensorSpec("y", (5, 3, 2), dtype)
    raw = model("SCATTER_ND", inputs, constants, ("p", "u", "s"), output)
    np.testing.assert_array_equal(computed(raw, inputs), expected)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("is_open", [False, True])
def test_segments_are_added(dtype: str, is_open: bool) -> None:
    """The converter leaves open how many there are."""
    x, segments = drawn(6, 3, 2, dtype=dtype), np.array([0, 0, 1, 3, 3, 3], np.int32)
    expected = np.zeros((4, 3, 2), dtype)
    for row, segment in zip(x, segments, strict=True):
        expected[segment] += row
    extent = 1 if is_open else len(expected)
    output = TensorSpec("y", (extent, *expected.shape[1:]), dtype, is_open=is_open)
    raw = model("SEGMENT_SUM", {"x": x}, {"s": segments}, ("x", "s"), output)
    np.testing.assert_array_equal(computed(raw, {"x": x}), expected)


def updated(x: Array, update: Array, start: Array) -> Array:
    """By the definition: the start is moved so that the update fits."""
    first = np.clip(start, 0, np.array(x.shape) - update.shape)
    found = x.copy()
    found[tuple(slice(f, f + n) for f, n in zip(first, update.shape, strict=True))] = update
    return found


@pytest.mark.parametrize("shape", [(1, 2, 3), (4, 1, 3), (4, 5, 1), (4, 5, 3)])
@pytest.mark.parametrize("start", [(0, 0, 0), (2, 3, 1), (-7, 9, 9)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8"])
def test_a_slice_at_a_computed_start_is_updated(
    shape: tuple[int, ...], start: tuple[int, ...], dtype: str
) -> None:
    x, update, first = drawn(4, 5, 3, dtype=dtype), drawn(*shape, dtype=dtype), np.array(start)
    scale = {"scales": (0.5,), "zero_points": (3,)} if dtype == "int8" else {}
    parts = {"x": x, "u": update, "s": first.astype(np.int32)}
    tensors = [TensorSpec(k, a.shape, a.dtype.name) for k, a in parts.items()]
    tensors.append(TensorSpec("y", x.shape, dtype))
    if scale:
        tensors = [replace(t, **scale) if t.dtype == "int8" else t for t in tensors]
    node = OperatorSpec("DYNAMIC_UPDATE_SLICE", (0, 1, 2), (3,))
    raw = write_tflite(tuple(tensors), (node,), (0, 1, 2), (3,))
    np.testing.assert_array_equal(computed(raw, parts), updated(x, update, first))


@pytest.mark.parametrize("start", [1, 9])
def test_a_slice_at_a_constant_start_is_updated(start: int) -> None:
    parts, first = {"x": drawn(6, 2), "u": drawn(3, 2)}, np.array([start, 0], np.int32)
    output = TensorSpec("y", (6, 2), "float32")
    raw = model("DYNAMIC_UPDATE_SLICE", parts, {"s": first}, ("x", "u", "s"), output)
    np.testing.assert_array_equal(computed(raw, parts), updated(*parts.values(), first))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("batch", [1, 2, -1])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_each_batch_has_indices_of_its_own(dtype: str, batch: int, constant: bool) -> None:
    x, axis = drawn(2, 3, 4, 5, dtype=dtype), batch % 3
    shape = (*x.shape[:axis], *(3,) * (3 - axis))
    at = np.random.default_rng(batch + 9).integers(0, x.shape[axis], shape).astype(np.int32)
    rest = at.reshape(-1, *shape[axis:])
    rows = [row[k] for row, k in zip(x.reshape(len(rest), *x.shape[axis:]), rest, strict=True)]
    expected = np.reshape(rows, (*at.shape, *x.shape[axis + 1 :]))
    output = TensorSpec("y", expected.shape, dtype)
    options: dict[str, OptionValue] = {"axis": axis, "batch_dims": batch}
    inputs, constants = ({"x": x}, {"at": at}) if constant else ({"x": x, "at": at}, {})
    raw = model("GATHER", inputs, constants, ("x", "at"), output, options)
    np.testing.assert_array_equal(computed(raw, inputs), expected)


@pytest.mark.parametrize("operator", ["BITWISE_XOR", "RIGHT_SHIFT"])
def test_bits_of_integers(operator: str) -> None:
    """Bits that are shifted further than all are those of the sign."""
    a = np.array([[-(2**31), 2**31 - 1, 77], [-77, 5, -1]], np.int32)
    b = np.array([31, 99, 3], np.int32)
    expected = a ^ b if operator == "BITWISE_XOR" else a >> np.minimum(b, 31)
    given = {"a": a, "b": b}
    raw = model(operator, given, {}, ("a", "b"), TensorSpec("y", a.shape, "int32"))
    np.testing.assert_array_equal(computed(raw, given), expected)
