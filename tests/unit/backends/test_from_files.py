"""From a framework's file to a partitioned graph and its C, in public functions (RFC 0060, "Using a
Custom Backend")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
    KernelCall,
    OpStrategy,
    UMABackend,
    convolved,
    elements,
    is_op,
    requantise,
    wildcard,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "REGISTERED", {})


def exported(
    path: Path, *, channels: Sequence[int] = (4, 8, 6), quantised_sums: bool = False
) -> Path:
    """A network of Conv1d and ReLU as PyTorch exports it, quantised with pairs of nodes.

    quantised_sums: the ReLU has another quantisation than the convolution before it."""
    rng = np.random.default_rng(0)
    nodes: list[Any] = []
    constants = {
        "scale": np.float32(0.05), "least": np.int8(-128), "zero": np.int8(3),
    }  # fmt: skip

    def node(kind: str, *inputs: str, to: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [to], name=to, **attributes))
        return to

    def quantised(x: str, zero: str = "zero") -> str:
        codes = node("QuantizeLinear", x, "scale", zero, to=f"{x}_q")
        return node("DequantizeLinear", codes, "scale", zero, to=f"{x}_dq")

    def constant(name: str, codes: Any, scale: float) -> str:
        constants[name] = codes
        constants[f"{name}_scale"] = np.full(len(codes), scale, np.float32)
        constants[f"{name}_zero"] = np.zeros(len(codes), codes.dtype)
        triple = name, f"{name}_scale", f"{name}_zero"
        return node("DequantizeLinear", *triple, to=f"{name}_dq", axis=0)

    x = quantised("x")
    for k, (inside, outside) in enumerate(pairwise(channels)):
        codes = rng.integers(-100, 100, (outside, inside, 3)).astype(np.int8)
        weights = constant(f"w{k}", codes, 0.01)
        bias = constant(f"b{k}", rng.integers(-100, 100, outside).astype(np.int32), 0.0005)
        x = node("Conv", x, weights, bias, to=f"conv{k}", kernel_shape=[3], pads=[1, 1])
        x = quantised(x) if quantised_sums else x
        x = quantised(node("Relu", x, to=f"relu{k}"), "least")
    graph = helper.make_graph(
        nodes,
        "keywords",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, channels[0], 20])],
        [helper.make_tensor_value_info(x, onnx.TensorProto.FLOAT, [1, channels[-1], 20])],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


NUMBERS = ("in_h", "in_c", "out_h", "out_c", "kernel_h", "stride_h", "pad_top",
           "in_zero", "out_zero", "least", "most")  # fmt: skip


def run(device: Any, x: Any, w: Any, b: Any, m: Any, s: Any, y: Any, *numbers: int) -> None:
    p = dict(zip(NUMBERS, numbers, strict=True))
    image = elements(x, np.int8, p["in_h"], 1, p["in_c"])
    weights = elements(w, np.int8, p["out_c"], p["kernel_h"], 1, p["in_c"])
    window = (p["stride_h"], 1), (1, 1), (p["pad_top"], 0)
    sums = convolved(image, weights, (p["out_h"], 1), *window, p["in_zero"])
    sums = sums + elements(b, np.int32, p["out_c"])
    tables = elements(m, np.int32, p["out_c"]), elements(s, np.int8, p["out_c"])
    found = requantise(sums, *tables, p["out_zero"], (p["least"], p["most"]))
    elements(y, np.int8, *found.shape)[:] = found


RUN = Driver("ut_run", "ultra_trail", run, device=dict)


def compute(call: KernelCall) -> Sequence[Command]:
    tables = [call.table("multiplier"), call.table("shift")]
    addresses = [call.operand(k).address for k in range(3)]
    numbers = [call.parameters[name] for name in NUMBERS]
    return [call.invoke(RUN, *addresses, *tables, call.result.address, *numbers)]


def custom_conv1d_strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> OpStrategy:
    strategy = OpStrategy()
    strategy.add_implementation(compute, name="custom_conv1d.generic", tables=lambda o: o.tables)
    return strategy


# The pattern of RFC 0060, "_register_pattern".
conv1d_pattern = is_op("nn.conv1d")(wildcard(), wildcard())
optional_bias = lambda x: is_op("nn.bias_add")(x, wildcard())  # noqa: E731
optional_relu = lambda x: is_op("nn.relu")(x)  # noqa: E731
conv1d_pattern = conv1d_pattern.optional(optional_bias).optional(optional_relu)


class UltraTrailBackend(UMABackend):
    target_name = "ultra_trail"

    def __init__(self) -> None:
        super().__init__()
        self._register_target_attr("dimension", default=8)
        self._register_pattern("conv1d", conv1d_pattern)
        self._register_operator_strategy("nn.conv1d", custom_conv1d_strategy)
        self._register_codegen(includes='#include "ut.h"')


def composites(graph: penstock.Graph) -> dict[str, Composite]:
    return {node.name: node.op for node in graph.nodes if isinstance(node.op, Composite)}


def test_the_program_of_the_rfc_in_public_functions(tmp_path: Path) -> None:
    mod = penstock.read(exported(tmp_path / "keywords.onnx"))

    ut_backend = UltraTrailBackend()
    ut_backend.register()
    mod = ut_backend.partition(mod)
    assert [op.name for op in composites(mod).values()] == ["conv1d", "conv1d"]

    module = penstock.compile(mod, target="host")
    left = module.compilation.parts.cpu_fallbacks
    assert [item.node.kind for item in left] == ["Transpose", "Transpose"]
    assert penstock.verify(mod, target="host", last_rung="machine").passed


def test_compile_takes_the_attributes_of_the_partition() -> None:
    net = penstock.GraphBuilder("net")
    graph = net.build(net.conv2d(net.input((1, 8, 1, 4)), 4, (3, 1)))
    UltraTrailBackend().register()
    mod = UltraTrailBackend().partition(graph, {"dimension": 4})
    (used,) = penstock.compile(mod, target="cortex-m4").compilation.request.accelerators
    assert used.target.attrs == {"dimension": 4}


def test_a_read_graph_compiles_to_the_same_code(tmp_path: Path) -> None:
    path = exported(tmp_path / "keywords.onnx")
    of_file, of_graph = (
        penstock.compile(model, target="cortex-m4").bundle()
        for model in (path, penstock.read(path))
    )
    assert list(of_file) == list(of_graph)
    assert of_file["keywords_weights.c"] == of_graph["keywords_weights.c"]


def test_read_takes_the_settings_of_reading_only(tmp_path: Path) -> None:
    path = exported(tmp_path / "keywords.onnx")
    assert penstock.read(path, size_limit="1MiB") == penstock.read(str(path))
    with pytest.raises(penstock.UsageError, match='there is no setting "sram"'):
        penstock.read(path, sram="4KiB")  # pyright: ignore[reportCallIssue]


def test_partition_simplifies_as_the_compiler_does(tmp_path: Path) -> None:
    UltraTrailBackend().register()
    graph = penstock.read(exported(tmp_path / "keywords.onnx"))
    done = penstock.compile(graph, target="host", accelerators=("ultra_trail",)).compilation
    assert list(composites(done.graph)) == list(composites(UltraTrailBackend().partition(graph)))


@pytest.mark.parametrize("quantised_sums", [False, True])
def test_reshapes_around_a_layer_are_looked_through(tmp_path: Path, quantised_sums: bool) -> None:
    graph = penstock.read(exported(tmp_path / "net.onnx", quantised_sums=quantised_sums))
    found = composites(UltraTrailBackend().partition(graph))
    kinds = [[node.kind for node in op.nodes] for op in found.values()]
    layer = ["Conv2D", "Reshape", "Relu"] if quantised_sums else ["Conv2D"]
    assert kinds == [layer] * 2


def test_a_reshape_that_moves_extents_is_not_looked_through() -> None:
    net = penstock.GraphBuilder("net")
    x = net.reshape(net.conv2d(net.input((1, 8, 1, 4)), 4, (3, 1)), (1, 4, 1, 8))
    graph = net.build(net.softmax(x))
    pattern = is_op("nn.softmax")(is_op("nn.conv1d")(wildcard(), wildcard()))
    npu = UltraTrailBackend()
    npu._registered.patterns.clear()
    npu._register_pattern("both", pattern)
    assert composites(npu.partition(graph)) == {}


def test_the_files_of_a_bundle_are_listed() -> None:
    bundle = penstock.compile("zoo:lenet5", target="host").bundle()
    assert list(bundle) == [name for name, _ in bundle.files]
    assert "lenet5.c" in bundle
    assert "lenet6.c" not in bundle
    assert len(bundle) == len(bundle.files)
    assert dict(bundle.items()) == dict(bundle.files)
    with pytest.raises(KeyError, match=r"lenet6\.c"):
        bundle["lenet6.c"]
