"""TensorTrace: elements that are never computed are not compared, all others are."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.ir.tensor import Array, Region
from penstock.simulators.compare import compare_sets
from penstock.simulators.graph import TensorTrace, gathered

EXPECTED = np.arange(12, dtype=np.int8).reshape(3, 4)


def traced(*regions: Region) -> dict[str, Array]:
    tensors: dict[str, Array] = {}
    trace = TensorTrace(tensors, {"x": EXPECTED.shape})
    for region in regions:
        trace("x", region, EXPECTED[region.slices])
    return gathered(tensors)


def test_a_tensor_that_is_computed_in_pieces_is_compared_as_a_whole() -> None:
    found = traced(Region.of((0, 1), (0, 4)), Region.of((1, 3), (0, 4)))
    assert not isinstance(found["x"], np.ma.MaskedArray)
    assert compare_sets(("x",), (found,), ({"x": EXPECTED},)).elements == 12


@pytest.mark.parametrize(("place", "mismatches"), [((1, 1), 1), ((0, 0), 0)])
def test_only_computed_elements_count(place: tuple[int, int], mismatches: int) -> None:
    found = traced(Region.of((1, 3), (1, 3)))
    expected = EXPECTED.copy()
    expected[place] += 1
    compared = compare_sets(("x",), (found,), ({"x": expected},))
    assert (compared.elements, compared.mismatches) == (4, mismatches)
