"""Malformed nodes that move data raise an ordinary error with the value found."""

from __future__ import annotations

import pytest

from foreign_nodes import graph_of, int8, ints
from penstock.errors import ModelError, UnsupportedError
from penstock.ir.graph import Value


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        ("PAD", (int8("x", 2, 2), ints("p", ((1, -1), (0, 0)))), "must be within"),
        ("PAD", (int8("x", 2, 2), ints("p", (1, 1))), "has 2 elements, must have 4"),
        ("SLICE", (int8("x", 4), ints("b", (3,)), ints("s", (2,))), "begins at 3, takes 2"),
        ("SLICE", (int8("x", 4), ints("b", (1,))), "input 2 is missing"),
        ("STRIDED_SLICE", (int8("x", 4), *(ints(n, (0,)) for n in "bes")), "stride of axis 0 is 0"),
        (
            "STRIDED_SLICE",
            (int8("x", 1, 4), ints("b", (0, 0)), ints("e", (1, 4)), ints("s", (1, 1))),
            "output has shape [4], must be [1, 4]",
        ),
        ("SPLIT", (ints("axis", (5,)), int8("x", 4)), "axis is 5, must be within [-1, 1)"),
        ("SPLIT_V", (int8("x", 4), ints("s", (3,)), ints("axis", (0,))), "the input has 4"),
        ("TRANSPOSE", (int8("x", 2, 3), ints("o", (1, 1))), "must name each of 2 axes once"),
        ("GATHER", (int8("x", 4), ints("i", (4,))), "must be within [0, 4)"),
        ("TILE", (int8("x", 4), ints("m", (-1,))), "must be 1 positive numbers"),
        ("TILE", (int8("x", 4), ints("m", (0,))), "must not be empty"),
        ("MIRROR_PAD", (int8("x", 3), ints("p", ((3, 0),))), "at most 2 can be mirrored"),
        ("MEAN", (int8("x", 2, 3), ints("axes", (2,))), "must be within [-2, 2)"),
        ("DEPTH_TO_SPACE", (int8("x", 1, 2, 2, 6),), "6 channels are not a multiple"),
        ("RESIZE_BILINEAR", (int8("x", 1, 2, 2, 6), ints("s", (0, 4))), "is empty"),
        ("BATCH_MATMUL", (int8("a", 2, 3), int8("b", 4, 2)), "has 3 columns, the second 4 rows"),
    ],
)
def test_a_malformed_node_is_refused_with_a_reason(
    kind: str, inputs: tuple[Value, ...], message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        graph_of(kind, inputs, (int8("y", 4),), block_size=2)
    assert message in str(caught.value)


def test_concatenation_of_other_scales_is_refused_as_the_reference_does() -> None:
    inputs = (int8("a", 2, scale=0.5), int8("b", 2, scale=0.25))
    with pytest.raises(UnsupportedError, match=r"scale 0\.25"):
        graph_of("CONCATENATION", inputs, (int8("y", 4),), axis=0)


def test_computed_indices_of_an_inner_axis_are_refused() -> None:
    indices = Value("i", ints("i", (1, 2)).type)
    with pytest.raises(UnsupportedError, match="axes before it must have extent 1"):
        graph_of("GATHER", (int8("x", 2, 4), indices), (int8("y", 2, 2),), axis=1)
