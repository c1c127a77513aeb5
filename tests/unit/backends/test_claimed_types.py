"""Accelerators claim nodes of every element type, several in one pattern."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import penstock
from penstock.backends.discovery import names
from penstock.backends.uma import backend
from penstock.uma import (
    Command,
    Composite,
    Driver,
    DType,
    ElementTypes,
    KernelCall,
    OpStrategy,
    UMABackend,
    elements,
    is_constant,
    is_op,
    wildcard,
)

INT32, FLOAT32, INT8, BOOL = DType.INT32, DType.FLOAT32, DType.INT8, DType.BOOL
HEADER = """\
#ifndef PLAIN_H
#define PLAIN_H
#include <stdint.h>
void plain_add(const void *a, const void *b, void *y, int32_t count, int32_t is_real);
void plain_less(const void *a, const void *b, void *y, int32_t count);
#endif
"""
STUB = """\
#include "plain.h"
void plain_add(const void *a, const void *b, void *y, int32_t count, int32_t is_real) {
    for (int32_t k = 0; k < count; k++) {
        if (is_real) {
            ((float *)y)[k] = ((const float *)a)[k] + ((const float *)b)[k];
        } else {
            ((uint32_t *)y)[k] = ((const uint32_t *)a)[k] + ((const uint32_t *)b)[k];
        }
    }
}
void plain_less(const void *a, const void *b, void *y, int32_t count) {
    for (int32_t k = 0; k < count; k++) {
        const float sum = ((const float *)a)[k] + ((const float *)b)[k];
        ((uint8_t *)y)[k] = sum < 0.0f;
    }
}
"""


def add_model(device: Any, a: Any, b: Any, y: Any, count: int, is_real: int) -> None:
    dtype = np.float32 if is_real else np.int32
    elements(y, dtype, count)[:] = elements(a, dtype, count) + elements(b, dtype, count)


def less_model(device: Any, a: Any, b: Any, y: Any, count: int) -> None:
    total = elements(a, np.float32, count) + elements(b, np.float32, count)
    elements(y, np.bool_, count)[:] = total < 0


ADD = Driver("plain_add", "plain", add_model, device=dict)
LESS = Driver("plain_less", "plain", less_model, device=dict)


def add(call: KernelCall) -> Sequence[Command]:
    a, b = (call.operand(k).address for k in range(2))
    is_real = int(call.output.dtype is FLOAT32)
    return [call.invoke(ADD, a, b, call.result.address, call.output.elements, is_real)]


def less(call: KernelCall) -> Sequence[Command]:
    a, b = (call.operand(k).address for k in range(2))
    return [call.invoke(LESS, a, b, call.result.address, call.output.elements)]


class Plain(UMABackend):
    """Adds integers or real numbers, and tells which sums are negative.

    types: the element types that its implementations declare, by pattern."""

    target_name = "plain"

    def __init__(self, **types: Any) -> None:
        super().__init__()
        total = is_op("add")(wildcard(), wildcard())
        self._register_pattern("less", is_op("less")(total, is_constant(0)))
        self._register_pattern("add", is_op("add")(wildcard(), wildcard()))

        def strategy_of(name: str, compute: Any) -> Any:
            def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
                found = OpStrategy()
                declared = types[name] if isinstance(types[name], list) else [types[name]]
                for k, one in enumerate(declared):
                    found.add_implementation(
                        compute, name=f"plain.{name}{k}", element_types=one, cost=lambda o, r: 1
                    )
                return found

            return strategy

        self._register_operator_strategy("less", strategy_of("less", less))
        self._register_operator_strategy("add", strategy_of("add", add))
        self._register_codegen(
            includes='#include "plain.h"', sources={"plain.h": HEADER, "plain.c": STUB}
        )


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "REGISTERED", {})


def network(folder: Path, element: int, *, compares: bool = False) -> penstock.Graph:
    """y = x + x', or whether that is negative."""
    nodes = [helper.make_node("Add", ["x", "z"], ["s"], name="s")]
    result, kind = "s", element
    zero = numpy_helper.from_array(helper.tensor_dtype_to_np_dtype(element).type(0), "zero")
    if compares:
        nodes.append(helper.make_node("Less", ["s", "zero"], ["y"], name="y"))
        result, kind = "y", onnx.TensorProto.BOOL
    ends = [helper.make_tensor_value_info(name, element, [1, 6]) for name in "xz"]
    out = [helper.make_tensor_value_info(result, kind, [1, 6])]
    graph = helper.make_graph(nodes, "sums", ends, out, [zero] if compares else [])
    opset = [helper.make_opsetid("", 17)]
    file = folder / "sums.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), file)
    return penstock.read(file)


ADDS = [ElementTypes((INT32,), INT32), ElementTypes((FLOAT32,), FLOAT32)]
COMPARES = {
    "of the composite": ElementTypes((FLOAT32,), BOOL),
    "of each operator": {
        "add": ElementTypes((FLOAT32,), FLOAT32),
        "less": ElementTypes((FLOAT32,), BOOL),
    },
}


def claimed(verified: penstock.Verified) -> list[str]:
    nodes = verified.compiled.compilation.graph.nodes
    return [node.kind for node in nodes if isinstance(node.op, Composite)]


@pytest.mark.parametrize("element", [onnx.TensorProto.INT32, onnx.TensorProto.FLOAT])
def test_integers_and_real_numbers_are_claimed(element: int, tmp_path: Path) -> None:
    Plain(add=ADDS, less=None).register()
    graph = network(tmp_path, element)
    done = penstock.verify(graph, target="host", accelerators=("plain",), io="model")
    assert claimed(done) == ["add"]
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [("machine", 0), ("host", 0)]


@pytest.mark.parametrize("stated", COMPARES)
def test_a_pattern_contains_several_element_types(stated: str, tmp_path: Path) -> None:
    Plain(add=None, less=COMPARES[stated]).register()
    graph = network(tmp_path, onnx.TensorProto.FLOAT, compares=True)
    done = penstock.verify(graph, target="host", accelerators=("plain",), io="model")
    assert claimed(done) == ["less"]
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [("machine", 0), ("host", 0)]


def test_other_types_are_refused_with_the_tensor(tmp_path: Path) -> None:
    Plain(add=ElementTypes((FLOAT32,), FLOAT32), less=None).register()
    graph = network(tmp_path, onnx.TensorProto.INT32)
    done = penstock.compile(graph, target="host", accelerators=("plain",), io="model")
    (left,) = done.compilation.parts.cpu_fallbacks
    assert '"plain.add0": input 0 is int32, must be float32' in left.reason


def test_rules_for_int8_that_fail_refuse_other_types(tmp_path: Path) -> None:
    def scaled(layer: Any) -> bool:
        """Zero points are positive."""
        return layer.parameters["zero_a"] > 0

    plain = Plain(add=None, less=None)
    plain._register_constraint(scaled)
    plain.register()
    graph = network(tmp_path, onnx.TensorProto.FLOAT)
    done = penstock.compile(graph, target="host", accelerators=("plain",), io="model")
    (left,) = done.compilation.parts.cpu_fallbacks
    assert "input 0 is float32, must be int8" in left.reason


@pytest.mark.parametrize("name", names())
def test_installed_accelerators_leave_real_numbers_to_the_processor(
    name: str, tmp_path: Path
) -> None:
    def constant(name: str, *shape: int) -> Any:
        return numpy_helper.from_array(np.full(shape, 0.5, np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Mul", ["p", "f"], ["m"]),
        helper.make_node("Add", ["m", "f"], ["a"]),
        helper.make_node("Concat", ["a", "p"], ["k"], axis=1),
        helper.make_node("Flatten", ["k"], ["l"]),
        helper.make_node("Gemm", ["l", "v"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    real = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "reals",
        [helper.make_tensor_value_info("x", real, [1, 2, 8, 8])],
        [helper.make_tensor_value_info("y", real, [1, 3])],
        [constant("w", 4, 2, 3, 3), constant("b", 4), constant("f", 1, 4, 1, 1),
         constant("v", 128, 3)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "reals.onnx")
    target = "cortex-m55" if name.startswith("ethos") else "cortex-m4"
    done = penstock.compile(tmp_path / "reals.onnx", target=target, accelerators=(name,))
    kinds = {n.kind for n in done.compilation.graph.nodes if isinstance(n.op, Composite)}
    assert kinds <= {"concatenate", "Transpose"}  # they only move elements
