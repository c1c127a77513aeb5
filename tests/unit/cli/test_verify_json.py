"""penstock verify --json contains the measurements of each rung."""

from __future__ import annotations

from pathlib import Path

from command_line import CommandLine
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
