"""smv: float16 layers, on every rung and in tiles of both tilers, judged by NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import penstock
from penstock.simulators.graph import run_graph
from penstock.uma import Array, Composite, DType

SMALL = "smv:input_bytes=4096,weights_bytes=4096,output_bytes=2048"


def model(folder: Path, *, batch: int = 1) -> tuple[Path, Mapping[str, Array]]:
    """Two convolutions with ReLU and a fully connected layer, and their constants."""
    random = np.random.default_rng(7)
    shapes = {"v": (12, 5, 3, 3), "w": (20, 12, 1, 1), "d": (10, 20 * 5 * 4)}
    constants = {name: random.normal(0, 0.2, shape) for name, shape in shapes.items()}
    constants |= {f"b{name}": random.normal(0, 1, s[0]) for name, s in shapes.items()}
    stored = {name: np.asarray(c, np.float32) for name, c in constants.items()}
    conv: dict[str, Any] = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "v", "bv"], ["a"], name="first", **conv),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w", "bw"], ["c"], name="second"),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Gemm", ["f", "d", "bd"], ["y"], name="dense", transB=1),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [batch, 5, 10, 8]), ("y", [batch, 10]))
    ]
    initial = [numpy_helper.from_array(c, name) for name, c in stored.items()]
    graph = helper.make_graph(nodes, "halves", ends[:1], ends[1:], initial)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, folder / "halves.onnx")
    return folder / "halves.onnx", stored


def rounded(x: Array) -> Array:
    return np.asarray(x, np.float16).astype(np.float64)


def expected(x: Array, c: Mapping[str, Array]) -> Array:
    """The outputs by sums in double precision, of tensors that are rounded to float16."""
    padded = np.pad(rounded(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    read = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    first = np.einsum("nchwkl,ockl->nohw", read, rounded(c["v"])) + c["bv"][:, None, None]
    second = np.einsum("nchw,oc->nohw", rounded(np.maximum(first, 0)), rounded(c["w"][..., 0, 0]))
    flat = rounded(second + c["bw"][:, None, None]).reshape(len(x), -1)
    return rounded(flat @ rounded(c["d"]).T + c["bd"])


@pytest.mark.parametrize("accelerator", ["smv", SMALL, f"{SMALL},tiler=smaug", "smv:engines=4"])
def test_float16_layers_are_exact_on_every_rung(accelerator: str, tmp_path: Path) -> None:
    file, constants = model(tmp_path)
    done = penstock.verify(file, target="host", accelerators=(accelerator,), float16=True)
    assert [(rung.step, rung.mismatches) for rung in done.rungs] == [("machine", 0), ("host", 0)]
    graph = done.compiled.compilation.graph
    found = {n.op.name: n.op.engine for n in graph.nodes if isinstance(n.op, Composite)}
    assert found == {"half_conv2d": "smv", "half_dense": "smv"}
    random = np.random.default_rng(11)
    x = random.normal(0, 1, (1, 5, 10, 8)).astype(np.float32)
    y = run_graph(done.compiled.compilation.model, {"x": x})["y"]
    np.testing.assert_array_equal(y, expected(x, constants))
    assert (run_graph(penstock.read(file), {"x": x})["y"] != y).all()
    between = [n.output.type.dtype for n in graph.nodes if isinstance(n.op, Composite)]
    assert set(between) == {DType.FLOAT16}
    order = [left.where for left in done.compiled.report.left_to_cpu if "Transpose" in left.where]
    assert order[0].startswith('Transpose "x/axes0231" of node 0 Conv')
