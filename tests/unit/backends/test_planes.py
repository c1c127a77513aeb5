"""An accelerator whose images have their channels first, on every rung."""

from __future__ import annotations

import re
from collections.abc import Sequence
from inspect import getsource
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import penstock
from penstock.backends.uma import backend
from penstock.uma import (
    Command,
    Composite,
    Driver,
    DType,
    ElementTypes,
    Graph,
    KernelCall,
    Loop,
    OpStrategy,
    PassPhase,
    UMABackend,
    Var,
    channels_first,
    elements,
    is_op,
    wildcard,
)

HEADER = """\
#ifndef PLANES_H
#define PLANES_H
#include <stdint.h>
void planes_pool(const void *x, void *y, int32_t rows, int32_t columns);
#endif
"""
STUB = """\
#include "planes.h"
void planes_pool(const void *x, void *y, int32_t rows, int32_t columns) {
    const float *in = x;
    float *out = y;
    for (int32_t k = 0; k < rows * columns; k++) {
        const int32_t at = k / columns * 4 * columns + k % columns * 2;
        const float upper = in[at] > in[at + 1] ? in[at] : in[at + 1];
        const int32_t next = at + 2 * columns;
        const float lower = in[next] > in[next + 1] ? in[next] : in[next + 1];
        out[k] = upper > lower ? upper : lower;
    }
}
"""
REAL = ElementTypes((DType.FLOAT32,), DType.FLOAT32)


def pool_model(device: Any, x: Any, y: Any, rows: int, columns: int) -> None:
    image = elements(x, np.float32, rows, 2, columns, 2)
    elements(y, np.float32, rows, columns)[:] = image.max((1, 3))


POOL = Driver("planes_pool", "planes", pool_model, device=dict)


def pool(call: KernelCall) -> Sequence[Command]:
    x, plane = call.operands[call.input_index(0)], Var("c")
    *_, rows, columns = call.output.shape
    body = call.invoke(POOL, x.row(plane), call.result.row(plane), rows, columns)
    return [Loop("c", call.first, call.end, 1, (body,))]


def planes(graph: Graph, target: Any) -> Graph:
    return channels_first(graph, target.name)


class Planes(UMABackend):
    """Pools of 2 x 2 elements, without padding, of images (N, C, H, W)."""

    target_name = "planes"

    def __init__(self) -> None:
        super().__init__()

        def halved(offloaded: Any) -> bool | str:
            """Rows and columns are halved."""
            (n, h, w, c), p = offloaded.main.output.type.shape, offloaded.parameters
            window = (p["kernel_h"], p["kernel_w"], p["stride_h"], p["stride_w"])
            is_half = offloaded.main.inputs[0].type.shape == (n, 2 * h, 2 * w, c)
            return is_half and window == (2, 2, 2, 2)

        self._register_pattern("pool", is_op("nn.max_pool2d")(wildcard()), halved)
        self._register_relay_pass(PassPhase.POST_PARTITIONING_0, planes)

        def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
            found = OpStrategy()
            found.add_implementation(
                pool, name="planes.pool", element_types=REAL, cost=lambda o, r: 1, by_rows=True
            )
            return found

        self._register_operator_strategy("pool", strategy)
        self._register_codegen(
            includes='#include "planes.h"', sources={"planes.h": HEADER, "planes.c": STUB}
        )


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "REGISTERED", {})
    Planes().register()


def network(folder: Path, *, layers: bool) -> Path:
    """Two pools, with a convolution before and behind them if `layers`."""
    random = np.random.default_rng(4)
    weights = {name: random.normal(0, 1, (6, 6, 3, 3)).astype(np.float32) for name in "vw"}
    pads: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    window: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], **pads),
        helper.make_node("MaxPool", ["a" if layers else "x"], ["b"], **window),
        helper.make_node("MaxPool", ["b"], ["c" if layers else "y"], **window),
        helper.make_node("Conv", ["c", "w"], ["y"], **pads),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 6, size, size))
        for name, size in (("x", 12), ("y", 3))
    ]
    constants = [numpy_helper.from_array(w, name) for name, w in weights.items()]
    used = nodes if layers else nodes[1:3]
    graph = helper.make_graph(used, "g", ends[:1], ends[1:], constants if layers else [])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, folder / "g.onnx")
    return folder / "g.onnx"


@pytest.mark.parametrize("layers", [False, True])
def test_images_have_their_channels_first_on_every_rung(layers: bool, tmp_path: Path) -> None:
    model = network(tmp_path, layers=layers)
    done = penstock.verify(model, target="host", accelerators=("planes",))
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [("machine", 0), ("host", 0)]
    nodes = done.compiled.compilation.graph.nodes
    shapes = [node.output.type.shape for node in nodes if isinstance(node.op, Composite)]
    assert shapes == [(1, 6, 6, 6), (1, 6, 3, 3)]
    # The model's own transpositions are left out.
    others = [node.kind for node in nodes if not isinstance(node.op, Composite)]
    assert others.count("Transpose") == (4 if layers else 0)


def test_the_guide_shows_these_functions() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "how-to" / "add-a-backend.md").read_text("utf-8")
    for function in (planes, pool):
        head, body = getsource(function).split("\n", 1)
        plain = re.sub(r": \w+| -> [^:]+", "", head)
        lines = [plain, *body.splitlines()]
        assert "\n".join(f"   {line}" for line in lines) in guide
