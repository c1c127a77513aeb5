"""Constants and names that C has no plain form for."""

from __future__ import annotations

import numpy as np
import pytest

from penstock import api
from penstock.ir.graph import Graph, Node, Value
from penstock.ir.tensor import Array, Data, DType, TensorType
from penstock.ops.plain import PlainDiv

ODD = {
    "infinite or not a number": np.array([np.nan, np.inf, -np.inf, 1.5], np.float32),
    "zeros of both signs": np.array([0.0, -0.0, -0.0, 2.0], np.float32),
    "subnormal and largest": np.array([1e-45, -1e-40, 3.4028235e38, -1.0], np.float32),
}


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
@pytest.mark.parametrize("name", ODD)
def test_odd_constants_compile_and_are_exact(name: str, target: str) -> None:
    """Division by zeros of both signs tells them apart."""
    if target != "host":
        pytest.importorskip("unicorn", reason="the extra 'simulate' is not installed")
    assert api.verify(of_constant(PlainDiv(), ODD[name]), target).passed


@pytest.mark.parametrize("name", ["x???/", "a??/b", "/*/ */", "??!??'??-", "\\", "x\n??/"])
def test_odd_names_compile_without_warnings(name: str) -> None:
    graph = of_constant(PlainDiv(), np.ones(4, np.float32), name)
    done = api.compile(graph, "host").compilation
    for file, content in done.bundle.files:
        assert not file.endswith((".c", ".h")) or b"??" not in content, file
    assert api.verify(graph, "host").passed


def of_constant(op: PlainDiv, elements: Array, name: str = "x") -> Graph:
    type = TensorType((1, 4), DType.FLOAT32)
    x, k = Value(name, type), Value(f"{name}/k", type, Data.of(elements.reshape(1, 4)))
    node = Node(op, (x, k), Value(f"{name}/y", type), f"node {name}")
    return Graph("odd", (x,), (node.output,), (node,))
