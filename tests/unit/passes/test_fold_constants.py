"""Folding constants: what is large stays a node, so that a small file makes no large compiler."""

from __future__ import annotations

import numpy as np

from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Data, DType, Quantisation, TensorType
from penstock.ops.tile import Tile
from penstock.passes.fold_constants import fold_constants


def tiled(times: int) -> Graph:
    """A graph whose only node repeats a constant of 1024 elements."""
    q = Quantisation((0.5,), (0,))
    small = Value("c", TensorType((1, 1024), DType.INT8, q), Data.of(np.zeros((1, 1024), np.int8)))
    large = Value("y", TensorType((times, 1024), DType.INT8, q))
    return Graph("g", (), (large,), (Node(Tile((times, 1)), (small,), large),))


def test_a_constant_of_reasonable_size_is_folded() -> None:
    assert fold_constants(tiled(4)).nodes == ()


def test_a_constant_of_half_a_gibibyte_is_left_to_the_network() -> None:
    assert len(fold_constants(tiled(2**19)).nodes) == 1
