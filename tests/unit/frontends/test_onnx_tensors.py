"""Axis orders: after any transposes and reshapes, the elements equal NumPy's."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.frontends.onnx.tensors import OrderedTensor, Tensors, own
from penstock.ir.graph import Value
from penstock.ir.tensor import Array, DType, Quantisation, Region, TensorType


def computed(tensors: Tensors, name: str, x: Array) -> Array:
    """A tensor in the model's order, by the nodes that were made."""
    wanted = tensors.in_order(name, own(len(tensors.shape(name))))
    found = {"x": x}
    for node in tensors.nodes:
        whole = Region.whole(node.output.type.shape)
        inputs = tuple(found[v.name] for v in node.inputs)
        found[node.output.name] = node.op.evaluate(node.site, inputs, whole)
    return found[wanted.name]


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.sampled_from((1, 1, 2, 3, 4)), min_size=2, max_size=4)))


@st.composite
def split_again(draw: st.DrawFn, elements: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    found: list[int] = []
    while elements > 1 and len(found) < 3:
        divisors = [d for d in range(1, elements + 1) if elements % d == 0]
        found.append(draw(st.sampled_from(divisors)))
        elements //= found[-1]
    return (*found, elements)


@given(st.data())
def test_any_chain_of_moves_is_numpys(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    x = np.arange(math.prod(shape), dtype=np.int8).reshape(shape)
    lies = np.ascontiguousarray(x.transpose(order))
    type = TensorType(lies.shape, DType.INT8, Quantisation((0.1,), (0,)))
    tensors = Tensors()
    tensors.put("x0", OrderedTensor(Value("x", type), order))
    for k in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            axes = tuple(data.draw(st.permutations(range(x.ndim))))
            tensors.transpose(f"x{k}", f"x{k + 1}", axes)
            x = x.transpose(axes)
        else:
            wanted = data.draw(split_again(x.size))
            tensors.reshape(f"x{k}", f"x{k + 1}", wanted)
            x = x.reshape(wanted)
        assert tensors.shape(f"x{k + 1}") == x.shape
        if data.draw(st.booleans()):
            asked = tuple(data.draw(st.permutations(range(x.ndim))))
            found = tensors.in_order(f"x{k + 1}", asked)
            assert found.type.shape == tuple(x.shape[a] for a in asked)
    last = f"x{k + 1}"
    assert np.array_equal(computed(tensors, last, lies), x)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_columns_of_a_flattened_image_are_those_of_the_model(
    n: int, c: int, h: int, w: int
) -> None:
    x = np.arange(n * c * h * w).reshape(n, c, h, w)
    lies = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    type = TensorType(lies.shape, DType.INT8, Quantisation((0.1,), (0,)))
    tensors = Tensors()
    tensors.put("x", OrderedTensor(Value("x", type), (0, 2, 3, 1)))
    tensors.reshape("x", "y", (n, c * h * w))
    flat = tensors.flat("y")
    assert (flat is None) == (c == 1 or h * w == 1)
    if flat is not None:
        assert np.array_equal(lies.reshape(n, -1), x.reshape(n, -1)[:, flat.columns])
