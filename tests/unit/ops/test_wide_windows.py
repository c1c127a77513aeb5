"""Windows that reach far beyond their input: taps in the padding take no memory and no time."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest

import foreign_nodes
from benchmarks.small_tensors import bias, int8, sample, weights
from penstock.errors import ModelError, UnsupportedError
from penstock.frontends.causes import check_node
from penstock.ir.graph import Node, Value
from penstock.ir.op import Op, Site
from penstock.ir.tensor import Array, DType, Quantisation, Region, TensorType
from penstock.opkit.sliding import Window
from penstock.ops.convolutions import Conv2D, DepthwiseConv2D
from penstock.ops.pad import Pad
from penstock.ops.pool import AveragePool2D, MaxPool2D

HEIGHT, WIDTH = 5, 4
MOST_BYTES = 2**20


def windows(reach: int) -> dict[str, tuple[Window, Window]]:
    """Pairs of windows that read the same elements for every reach beyond the input."""
    dilated = Window.same(HEIGHT, 3, 1, reach), Window.same(WIDTH, 3, 1, reach)
    offset = Window(1, reach, 1, reach, reach), Window(1, reach, 1, reach, 0)
    shifted = Window(2, 1, reach, 0, reach), Window(2, 1, reach, reach, 0)
    return {"dilated": dilated, "strided": offset, "shifted": shifted}


def operator(name: str, rows: Window, columns: Window) -> tuple[Op, Site]:
    x, k, l = int8(2, HEIGHT, WIDTH, 3), rows.size, columns.size  # noqa: E741
    match name:
        case "conv":
            found = sample(Conv2D(rows, columns), x, weights(4, k, l, 3, axis=0), bias(4))
        case "depthwise":
            op = DepthwiseConv2D(rows, columns, 2)
            found = sample(op, x, weights(1, k, l, 6, axis=3), bias(6))
        case "max":
            found = sample(MaxPool2D(rows, columns), x)
        case _:
            found = sample(AveragePool2D(rows, columns), x)
    return found.op, found.site


def values(site: Site) -> tuple[Array, ...]:
    random = np.random.default_rng(5)
    return tuple(random.integers(-100, 100, t.shape).astype(t.dtype.value) for t in site.inputs)


CASES = [
    (name, kind)
    for name in ("conv", "depthwise", "max", "average")
    for kind in ("dilated", "strided", "shifted")
    if (name, kind) != ("average", "strided")  # has windows without an element
]


@pytest.mark.parametrize(("name", "windows_of"), CASES)
def test_reach_beyond_the_input_costs_nothing(name: str, windows_of: str) -> None:
    near, site = operator(name, *windows(8)[windows_of])
    far, wide = operator(name, *windows(2**26)[windows_of])
    assert site == wide
    inputs, whole = values(site), Region.whole(site.output.shape)
    expected = near.evaluate(site, inputs, whole)
    tracemalloc.start()
    found = far.evaluate(site, inputs, whole)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_BYTES
    np.testing.assert_array_equal(found, expected)


def test_windows_that_meet_nothing_have_no_average() -> None:
    """Against counting, for every small window."""
    extents, sizes, strides = (1, 2, 5), (1, 2, 3), (1, 2, 4)
    verdicts: set[bool] = set()
    for extent, size, stride, dilation, before, after in product(
        extents, sizes, strides, (1, 2, 3, 7), (0, 1, 2, 5, 8), (0, 1, 6)
    ):
        window = Window(size, stride, dilation, before, after)
        if window.outputs(extent) < 1:
            continue
        taps = [
            [o * stride - before + k * dilation for k in range(size)]
            for o in range(window.outputs(extent))
        ]
        expected = all(any(0 <= at < extent for at in each) for each in taps)
        assert window.always_meets(extent) == expected, (window, extent)
        verdicts.add(expected)
    assert verdicts == {False, True}
    with pytest.raises(ModelError, match="lies in the padding alone"):
        operator("average", *windows(8)["strided"])


@pytest.mark.parametrize(
    "options",
    [{"stride_w": 2**15}, {"dilation_h_factor": 2**16 + 1}, {"dilation_w_factor": 2**15}],
    ids=lambda options: "".join(options),
)
@pytest.mark.parametrize("size", [1, 3])
def test_steps_that_the_reference_truncates_are_refused(size: int, options: dict[str, int]) -> None:
    tensors = (
        foreign_nodes.int8("x", 1, HEIGHT, WIDTH, 2),
        foreign_nodes.int8("w", 3, size, size, 2),
    )
    given = {"padding": 0, "stride_h": 1, "stride_w": 1, "fused_activation_function": 0}
    with pytest.raises(UnsupportedError, match="the reference holds 16 bits"):
        foreign_nodes.graph_of(
            "CONV_2D", tensors, (foreign_nodes.int8("y", 1, HEIGHT, 1, 3),), **(given | options)
        )


def test_inputs_have_few_enough_rows_to_be_scheduled() -> None:
    x, y = foreign_nodes.int8("x", 1, 2**15 + 1, 4, 2), foreign_nodes.int8("y", 1, 2, 4, 2)
    begin, size = foreign_nodes.ints("b", [0, 0, 0, 0]), foreign_nodes.ints("s", [1, 2, 4, 2])
    with pytest.raises(UnsupportedError, match="32769 rows, at most 32768"):
        foreign_nodes.graph_of("SLICE", (x, begin, size), (y,))


def test_tensors_between_nodes_are_below_2_gib() -> None:
    """As of a model file, whose tensors are checked when it is read, and which pads them first."""
    q = Quantisation((0.5,), (0,))
    pad = Pad((0, 2**30, 0, 0), (0, 0, 0, 0), 0)
    x = Value("x", TensorType((1, 4, 4, 8), DType.INT8, q))
    y = Value("y", TensorType((1, 4 + 2**30, 4, 8), DType.INT8, q))
    with pytest.raises(ModelError, match="must be smaller than 2 GiB"):
        check_node(Node(pad, (x,), y, "node 0"))
