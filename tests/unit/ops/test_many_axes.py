"""Operators on tensors with more axes than kernels see, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.frontends.open import parse
from penstock.simulators.graph import run_graph
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

SCALES = {"scales": (0.1,), "zero_points": (-3,)}


@st.composite
def broadcast_shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast, one of them of rank 5 or 6."""
    whole = draw(st.lists(st.integers(1, 3), min_size=5, max_size=6))
    first = [draw(st.sampled_from((1, extent))) for extent in whole]
    second = [
        e if f == 1 else draw(st.sampled_from((1, e))) for e, f in zip(whole, first, strict=True)
    ]
    dropped = draw(st.integers(0, 6))
    while dropped and second and second[0] == 1:
        dropped, second = dropped - 1, second[1:]
    return tuple(first), tuple(second)


@given(broadcast_shapes(), st.sampled_from(("int8", "int32")), st.booleans())
def test_operands_of_five_and_six_axes_are_broadcast(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, swapped: bool
) -> None:
    first, second = shapes[::-1] if swapped else shapes
    quantised = SCALES if dtype == "int8" else {}
    result = np.broadcast_shapes(first, second)
    tensors = [
        TensorSpec(name, shape, dtype, **quantised)  # type: ignore[arg-type]
        for name, shape in (("a", first), ("b", second), ("y", result))
    ]
    raw = write_tflite(tensors, (OperatorSpec("MAXIMUM", (0, 1), (2,)),), (0, 1), (2,))
    graph = parse(raw, "m.tflite")
    rng = np.random.default_rng(math.prod(result))
    a, b = (rng.integers(-128, 128, shape).astype(dtype) for shape in (first, second))
    found = run_graph(graph, {"a": a, "b": b})["y"]
    np.testing.assert_array_equal(found, np.maximum(a, b))


def reduced(shape: tuple[int, ...], axes: tuple[int, ...]) -> bytes:
    """A maximum over axes."""
    result = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
    listed = TensorSpec("axes", (len(axes),), "int32", data=np.array(axes, np.int32))
    tensors = (
        TensorSpec("x", shape, **SCALES),  # type: ignore[arg-type]
        listed,
        TensorSpec("y", result, **SCALES),  # type: ignore[arg-type]
    )
    return write_tflite(tensors, (OperatorSpec("REDUCE_MAX", (0, 1), (2,)),), (0,), (2,))


@pytest.mark.parametrize(
    "axes", [(1, 2, 4), (0, 4), (2, 3), (4,), (0, 1, 2, 3, 4), (0, 2, 4), (1, 3)]
)
def test_tensors_of_five_axes_are_reduced(axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(-128, 128, (2, 3, 4, 2, 3)).astype(np.int8)
    graph = parse(reduced(x.shape, axes), "m.tflite")
    np.testing.assert_array_equal(run_graph(graph, {"x": x})["y"], x.max(axis=axes))
