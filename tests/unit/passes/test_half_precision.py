"""half_precision: real numbers are rounded to float16 between the nodes of a network."""

from __future__ import annotations

import numpy as np

import penstock
from penstock.ir.graph import Graph
from penstock.ir.text.printer import print_graph
from penstock.ir.verify import verify
from penstock.passes.half_precision import half_precision
from penstock.simulators.graph import run_graph
from texts.graph_reader import graph_from_text

CAST = """
graph g
input x: float32[{count}]
half: float16[{count}] = Cast(x, dtype=DType.FLOAT16)
y: float32[{count}] = Cast(half, dtype=DType.FLOAT32)
output y
"""
BEFORE = """
graph g
input x: float32[1,6]
a: float32[1,6] = PlainAdd(x, x)
b: float32[6] = Reshape(a, shape=(6,))
n: int32[6] = Cast(b, dtype=DType.INT32)
y: float32[6] = PlainMul(b, b)
output y, n
"""
AFTER = """
graph g
input x: float32[1,6]
x/float16: float16[1,6] = Cast(x, dtype=DType.FLOAT16)
a/input0: float32[1,6] = Cast(x/float16, dtype=DType.FLOAT32)
a/input1: float32[1,6] = Cast(x/float16, dtype=DType.FLOAT32)
a/exact: float32[1,6] = PlainAdd(a/input0, a/input1)
a: float16[1,6] = Cast(a/exact, dtype=DType.FLOAT16)
b: float16[6] = Reshape(a, shape=(6,))
n/input0: float32[6] = Cast(b, dtype=DType.FLOAT32)
n: int32[6] = Cast(n/input0, dtype=DType.INT32)
y/input0: float32[6] = Cast(b, dtype=DType.FLOAT32)
y/input1: float32[6] = Cast(b, dtype=DType.FLOAT32)
y/exact: float32[6] = PlainMul(y/input0, y/input1)
y/float16: float16[6] = Cast(y/exact, dtype=DType.FLOAT16)
y: float32[6] = Cast(y/float16, dtype=DType.FLOAT32)
output y, n
"""


def graph(text: str) -> Graph:
    found = graph_from_text(text.strip() + "\n")
    verify(found)
    return found


def test_every_tensor_between_nodes_is_rounded() -> None:
    found = half_precision(graph(BEFORE))
    verify(found)
    assert print_graph(found) == print_graph(graph(AFTER))


def test_outputs_are_those_of_rounded_tensors() -> None:
    x = np.random.default_rng(3).normal(0, 10, (1, 6)).astype(np.float32)
    y = run_graph(half_precision(graph(BEFORE)), {"x": x})["y"]
    total = (x.astype(np.float16).astype(np.float32) * 2).astype(np.float16)
    squares = (total.astype(np.float32) ** 2).astype(np.float16)
    np.testing.assert_array_equal(y, squares.astype(np.float32)[0])


def test_generated_code_converts_every_half_and_every_tie_as_numpy() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    bits = np.unique(halves.view(np.uint32))
    near = (bits[:, None] + np.array([0, 1, 0xFFF, 0x1000, 0x1001], np.uint32)).view(np.float32)
    x = np.concatenate([near.ravel(), np.float32([65519.996, 65520, -65520, 1e30, 1e-30, 3e-8])])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    cast = graph(CAST.format(count=len(x)))
    (outputs,) = penstock.run(cast, "host", [{"x": x}]).outputs
    np.testing.assert_array_equal(outputs["y"], expected)
