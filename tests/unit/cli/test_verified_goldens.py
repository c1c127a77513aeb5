"""`verify --goldens` with inputs and outputs of onnxruntime: node by node, and as recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine
from tools.onnx_writer import Model

onnxruntime = pytest.importorskip("onnxruntime")

WORDS = ("verify", "m.onnx", "-t", "host", "--last-rung", "reference", "--goldens", "g.npz")


def recorded() -> dict[str, np.ndarray]:
    """A model in m.onnx, and what onnxruntime computes."""
    model = Model()
    x = model.node("Relu", model.node("Conv", model.input(1, 3, 6, 6), model.weights(4, 3, 3, 3)))
    raw = model.raw(model.node("AveragePool", x, kernel_shape=[2, 2]))
    Path("m.onnx").write_bytes(raw)
    x = np.random.default_rng(1).normal(0, 2, (1, 3, 6, 6)).astype(np.float32)
    return {"in0_set0": x, "out0_set0": onnxruntime.InferenceSession(raw).run(None, {"x": x})[0]}


def test_goldens_are_judged_node_by_node(penstock: CommandLine) -> None:
    np.savez("g.npz", allow_pickle=False, **recorded())
    said = penstock(*WORDS, "--json")
    assert said.code == 0
    operators, ends = said.json["verified"]
    assert (operators["step"], ends["step"]) == ("operators", "end to end")
    assert len(operators["nodes"]) == operators["tensors"] > 6
    assert ends["measured"]["steps"] <= 2


def test_goldens_of_another_model_are_told_apart(penstock: CommandLine) -> None:
    arrays = recorded()
    arrays["out0_set0"] = arrays["out0_set0"][:, ::-1]
    np.savez("g.npz", allow_pickle=False, **arrays)
    said = penstock(*WORDS)
    assert said.code == 1
    assert "error[verify-003]: the goldens are not what onnxruntime computes" in said.err
