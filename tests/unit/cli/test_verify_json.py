"""penstock verify --json contains the measurements of each rung."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from command_line import CommandLine
from penstock.hardware.load import load_target
from penstock.ladder import climb
from penstock.pipeline.compilation import compile_request
from penstock.pipeline.request import Request
from penstock.simulators.goldens import Goldens
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import GoldenSet
from tools.onnx_writer import Model


def test_the_difference_to_the_onnx_reference_is_in_the_json(penstock: CommandLine) -> None:
    model = Model(kind="int8")
    x = model.input(1, 2, 6, 6)
    raw = model.raw(model.node("Sigmoid", model.node("Mul", x, x, scale=0.03), scale=1 / 256))
    Path("m.onnx").write_bytes(raw)
    said = penstock("verify", "m.onnx", "-t", "host", "--reference", "onnx", "--json")
    assert said.code == 0
    rungs = {rung["step"]: rung for rung in said.json["verified"]}
    measured = rungs["operators"]["measured"]
    assert measured.keys() == {"elements", "steps"}
    assert (
        f"{measured['elements']} of {rungs['operators']['elements']} " in rungs["operators"]["note"]
    )
    assert rungs["host"]["measured"] is None
    assert rungs["host"]["note"].startswith("sanitizers: ")
    shown = penstock("verify", "m.onnx", "-t", "host", "--reference", "onnx").out
    assert rungs["operators"]["note"] in " ".join(shown.split())


def test_steps_off_real_outputs_are_counted() -> None:
    done = compile_request(Request("zoo:lenet5", load_target("host")))
    (x,), (y,) = done.model.inputs, done.model.outputs
    inputs = {x.name: np.zeros(x.type.shape, np.int8)}
    scale, zero = y.type.scale, y.type.zero_point
    real = (run_graph(done.model, inputs)[y.name].astype(np.float32) - zero) * scale
    real.flat[1] += 3 * scale * (1 if real.flat[1] < 0.5 else -1)
    real.flat[4] += 1 * scale * (1 if real.flat[4] < 0.5 else -1)
    truth = Goldens("m", "r", (0,), ("k",), (GoldenSet((inputs[x.name],), (real,)),), None, ())
    first = next(climb(done, truth, (inputs,)))
    assert first.measured is not None
    assert (first.step, first.measured.elements, first.measured.steps) == ("end to end", 2, 3)
