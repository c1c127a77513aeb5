"""Operators that move data equal NumPy's indexing."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from benchmarks.small_tensors import Sample
from foreign_nodes import counting, graph_of, int8, ints, result
from penstock.ir.graph import Value
from penstock.ir.tensor import DType, Region, TensorType
from samples import channel_packs, pixel_blocks, transpose

ALL = slice(None)
REARRANGED = (
    *pixel_blocks.SAMPLES,
    *channel_packs.SAMPLES,
    *pixel_blocks.SAMPLES,
    *transpose.SAMPLES,
)
MASKED = {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 0}


@pytest.mark.parametrize(
    ("begin", "end", "step"),
    [((1, 0), (4, 3), (1, 1)), ((-1, 5), (-6, 0), (-2, -1)), ((-99, 2), (99, 3), (3, 1))],
)
def test_a_strided_slice_is_a_slice_of_numpy(
    begin: tuple[int, ...], end: tuple[int, ...], step: tuple[int, ...]
) -> None:
    x = counting(5, 6)
    expected = x[tuple(map(slice, begin, end, step))]
    inputs = (int8("x", 5, 6), ints("b", begin), ints("e", end), ints("s", step))
    graph = graph_of("STRIDED_SLICE", inputs, (int8("y", *expected.shape),), **MASKED)
    np.testing.assert_array_equal(result(graph, x)[0], expected)


def test_masks_of_a_strided_slice_open_its_ends_and_drop_its_axes() -> None:
    x = counting(4, 5, 6)
    inputs = (int8("x", 4, 5, 6), ints("b", (9, -2, 9)), ints("e", (9, 9, 9)), ints("s", (1, 1, 2)))
    graph = graph_of(
        "STRIDED_SLICE",
        inputs,
        (int8("y", 4, 3),),
        begin_mask=0b101,
        end_mask=0b101,
        shrink_axis_mask=0b010,
    )
    np.testing.assert_array_equal(result(graph, x)[0], x[:, -2, ::2])


def test_ends_of_a_strided_slice_may_be_offsets_from_its_begins() -> None:
    x = counting(8)
    inputs = (int8("x", 8), ints("b", (2,)), ints("e", (3,)), ints("s", (1,)))
    graph = graph_of("STRIDED_SLICE", inputs, (int8("y", 3),), **MASKED, offset=True)
    np.testing.assert_array_equal(result(graph, x)[0], x[2:5])


def test_a_split_becomes_one_slice_for_each_output() -> None:
    x = counting(2, 6)
    outputs = tuple(int8(f"y{k}", 2, size) for k, size in enumerate((1, 3, 2)))
    inputs = (int8("x", 2, 6), ints("sizes", (1, -1, 2)), ints("axis", (-1,)))
    graph = graph_of("SPLIT_V", inputs, outputs)
    for found, expected in zip(result(graph, x), np.split(x, (1, 4), axis=1), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_unpack_undoes_pack() -> None:
    x = counting(3, 2, 4)
    parts = tuple(int8(f"y{k}", 3, 4) for k in range(2))
    unpacked = result(graph_of("UNPACK", (int8("x", 3, 2, 4),), parts, axis=1), x)
    packed = graph_of("PACK", parts, (int8("z", 3, 2, 4),), axis=1)
    np.testing.assert_array_equal(result(packed, *unpacked)[0], x)


def test_a_tensor_stretches_to_a_shape_of_higher_rank() -> None:
    x = counting(3, 1)
    graph = graph_of("BROADCAST_TO", (int8("x", 3, 1), ints("s", (2, 3, 4))), (int8("y", 2, 3, 4),))
    np.testing.assert_array_equal(result(graph, x)[0], np.broadcast_to(x, (2, 3, 4)))


def test_gathering_at_a_matrix_of_indices_takes_its_shape() -> None:
    x, indices = counting(4, 3), ((3, 0), (1, 1))
    graph = graph_of("GATHER", (int8("x", 4, 3), ints("i", indices)), (int8("y", 2, 2, 3),), axis=0)
    np.testing.assert_array_equal(result(graph, x)[0], x[np.array(indices)])


@pytest.mark.parametrize(("mode", "name"), [(0, "reflect"), (1, "symmetric")])
def test_a_mirrored_border_is_that_of_numpy(mode: int, name: str) -> None:
    x = counting(3, 4)
    pads = ((2, 1), (0, 2))
    graph = graph_of(
        "MIRROR_PAD", (int8("x", 3, 4), ints("p", pads)), (int8("y", 6, 6),), mode=mode
    )
    np.testing.assert_array_equal(result(graph, x)[0], np.pad(x, pads, mode=name))  # type: ignore[call-overload]


def test_space_to_batch_pads_with_the_zero_point_and_batch_to_space_crops_it_away() -> None:
    x = counting(1, 3, 4, 2)
    pads = ((1, 0), (0, 2))
    inputs = (int8("x", 1, 3, 4, 2), ints("b", (2, 3)), ints("p", pads))
    spread = graph_of("SPACE_TO_BATCH_ND", inputs, (int8("y", 6, 2, 2, 2),))
    (images,) = result(spread, x)
    np.testing.assert_array_equal(images[0, 0], np.full((2, 2), 3))
    inputs = (int8("y", 6, 2, 2, 2), ints("b", (2, 3)), ints("c", pads))
    back = graph_of("BATCH_TO_SPACE_ND", inputs, (int8("z", 1, 3, 4, 2),))
    np.testing.assert_array_equal(result(back, images)[0], x)


def test_a_mean_of_whole_numbers_is_exact_where_the_axes_are_dropped() -> None:
    x = counting(2, 3, 3)
    inputs = (int8("x", 2, 3, 3, zero=0), ints("axes", (-1, 1)))
    graph = graph_of("MEAN", inputs, (int8("y", 2, zero=0),), keep_dims=False)
    np.testing.assert_array_equal(result(graph, x)[0], x.mean(axis=(1, 2)))


def test_the_first_of_equal_elements_is_the_extreme() -> None:
    x = np.array([[1, 5, 5, -3, -3]], np.int8)
    out = Value("y", TensorType((1,), DType.INT32))
    for kind, expected in (("ARG_MAX", 1), ("ARG_MIN", 3)):
        graph = graph_of(kind, (int8("x", 1, 5), ints("axis", 1)), (out,), output_type=2)
        assert result(graph, x)[0].tolist() == [expected]


def test_matrices_of_rank_two_multiply() -> None:
    a, b = counting(2, 3), counting(4, 3)
    inputs = (int8("a", 2, 3, scale=1.0, zero=0), int8("b", 4, 3, scale=1.0, zero=0))
    graph = graph_of(
        "BATCH_MATMUL", inputs, (int8("y", 2, 4, scale=1.0, zero=0),), adj_x=False, adj_y=True
    )
    np.testing.assert_array_equal(result(graph, a, b)[0], a @ b.T)


@pytest.mark.parametrize("moved", REARRANGED)
def test_a_rearrangement_needs_the_smallest_box_around_what_it_moves(moved: Sample) -> None:
    site = moved.site
    shape = site.inputs[0].shape
    indices = np.stack(np.indices(shape), axis=-1).reshape(-1, len(shape))
    numbers = np.arange(len(indices)).reshape(shape)
    y = moved.op.evaluate(site, (numbers,), Region.whole(site.output.shape))
    bounds = [list(combinations(range(extent + 1), 2)) for extent in site.output.shape]
    for intervals in product(*bounds):
        out = Region.of(*intervals)
        read = indices[y[out.slices].ravel()]
        box = Region(tuple(read.min(axis=0).tolist()), tuple((read.max(axis=0) + 1).tolist()))
        assert moved.op.needs(site, out) == (box,)
