"""Random models that share, transpose, reshape and pool tensors, judged by onnxruntime."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onnx_judge import worst_steps
from tools.onnx_writer import Model

Tensor = tuple[str, tuple[int, ...]]
"""Name and shape."""


def factors(data: st.DataObject, elements: int) -> tuple[int, ...]:
    """A shape of rank 1 to 4 with so many elements."""
    found: list[int] = []
    while elements > 1 and len(found) < 3:
        divisors = [d for d in range(1, elements + 1) if elements % d == 0]
        found.append(data.draw(st.sampled_from(divisors)))
        elements //= found[-1]
    return (*found, elements)


def moved(data: st.DataObject, model: Model, tensor: Tensor) -> Tensor:
    """The tensor after a node that selects its elements."""
    name, shape = tensor
    kinds = ["transpose", "reshape", "relu"]
    if len(shape) == 4 and min(shape[2:]) > 1:
        kinds += ["pool", "pool"]
    match data.draw(st.sampled_from(kinds)):
        case "transpose":
            axes = list(data.draw(st.permutations(range(len(shape)))))
            found = model.node("Transpose", name, perm=axes, scale=None)
            return found, tuple(shape[a] for a in axes)
        case "reshape":
            wanted = factors(data, math.prod(shape))
            listed = model.constant(np.array(wanted, np.int64))
            return model.node("Reshape", name, listed, scale=None), wanted
        case "pool":
            found = model.node("MaxPool", name, kernel_shape=[2, 2], scale=None)
            return found, (*shape[:2], shape[2] - 1, shape[3] - 1)
        case _:
            return model.node("Relu", name, scale=None), shape


def combined(data: st.DataObject, model: Model, a: Tensor, b: Tensor) -> str | None:
    """A node that reads both tensors, if any takes their shapes."""
    (name, shape), (other, wide) = a, b
    kinds: list[str] = []
    if len(wide) <= len(shape) and all(
        1 in (x, y) or x == y for x, y in zip(shape[::-1], wide[::-1], strict=False)
    ):
        kinds += ["Sub", "Add", "Max", "Mul"]
    if len(shape) == len(wide) > 1 and shape[-1] == wide[-2] and shape[:-2] == wide[:-2]:
        kinds += ["MatMul", "MatMul"]
    if len(shape) == len(wide) and shape[1:] == wide[1:]:
        kinds.append("Concat")
    if not kinds:
        return None
    kind = data.draw(st.sampled_from(kinds))
    attributes = {"axis": 0} if kind == "Concat" else {}
    scale = {"MatMul": 0.5, "Mul": 0.2}.get(kind, 0.1)
    return model.node(kind, name, other, scale=scale, **attributes)


@given(st.data())
def test_what_reads_two_layouts_of_a_tensor_is_onnxruntimes(data: st.DataObject) -> None:
    model = Model()
    shape = tuple(data.draw(st.sampled_from((1, 2, 3, 4))) for _ in range(4))
    tensors: list[Tensor] = [(model.input(*shape), shape)]
    for _ in range(data.draw(st.integers(2, 6))):
        tensors.append(moved(data, model, data.draw(st.sampled_from(tensors))))
    square = [(n, s) for n, s in tensors if len(s) > 1]
    for name, s in square[:2]:
        axes = [*range(len(s) - 2), len(s) - 1, len(s) - 2]
        found = model.node("Transpose", name, perm=axes, scale=None)
        tensors.append((found, tuple(s[a] for a in axes)))
    pairs = data.draw(st.permutations([(a, b) for a in tensors for b in tensors]))
    results = [found for a, b in pairs[:12] if (found := combined(data, model, a, b))]
    name, _ = tensors[-1]
    assert worst_steps(model.raw(*results, model.qdq(name, 0.07))) <= 1
