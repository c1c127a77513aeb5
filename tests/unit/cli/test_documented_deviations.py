"""`verify` judges nodes on which TensorFlow Lite Micro deviates by what is documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import CommandLine
from penstock.frontends import tflite
from penstock.ir.op import Op, Site
from penstock.ir.tensor import Array, Region
from penstock.ops.pool import MaxPool2D
from penstock.ops.registry import foreign_names
from penstock.ops.unary import Relu
from penstock.simulators.tflite_deviations import DEVIATIONS, deviation_of
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

pytest.importorskip("tflite_micro")

REFERENCE = ("verify", "m.tflite", "-t", "host", "--last-rung", "reference")
POOL = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}


def network() -> bytes:
    """An addition, RELU6 with a finer scale, which TensorFlow Lite Micro does not rescale, and a
    pool that reads it."""
    tensors = (
        TensorSpec("x", (1, 6, 6, 3), scales=(0.05,), zero_points=(3,)),
        TensorSpec("sum", (1, 6, 6, 3), scales=(0.08,), zero_points=(-7,)),
        TensorSpec("clamped", (1, 6, 6, 3), scales=(6 / 255,), zero_points=(-128,)),
        TensorSpec("y", (1, 5, 5, 3), scales=(6 / 255,), zero_points=(-128,)),
    )
    operators = (
        OperatorSpec("ADD", (0, 0), (1,), {"fused_activation_function": "NONE"}),
        OperatorSpec("RELU6", (1,), (2,)),
        OperatorSpec("MAX_POOL_2D", (2,), (3,), {**POOL, "fused_activation_function": "NONE"}),
    )
    return write_tflite(tensors, operators, (0,), (3,))


@pytest.fixture(autouse=True)
def model(penstock: CommandLine) -> None:
    Path("m.tflite").write_bytes(network())


def off_by_one(monkeypatch: pytest.MonkeyPatch, op: type[Op]) -> None:
    right = op.evaluate

    def evaluate(self: Op, site: Site, inputs: tuple[Array, ...], out: Region) -> Array:
        found = right(self, site, inputs, out).copy()
        found.flat[0] += 1 if found.flat[0] < 0 else -1
        return found

    monkeypatch.setattr(op, "evaluate", evaluate)


def test_every_node_is_judged(penstock: CommandLine) -> None:
    said = penstock(*REFERENCE, "--reference", "tflite", "--json")
    assert said.code == 0
    deviations, reference = said.json["verified"]
    assert (deviations["step"], reference["step"]) == ("deviations", "reference")
    (node,) = deviations["nodes"]
    assert (node["tensor"], node["mismatches"]) == ("clamped", 0)
    assert "RELU6, input and output differ in scale or zero point" in node["exception"]
    assert (reference["tensors"], reference["note"]) == (10, ""), "output and tensors of two sets"
    shown = penstock(*REFERENCE, "--reference", "tflite")
    assert 'documented deviation: m.tflite: node 1 RELU6 "clamped"' in shown.out
    assert "report" not in shown.out + shown.err


@pytest.mark.parametrize(
    ("op", "step", "named"),
    [(Relu, "deviations", "RELU6"), (MaxPool2D, "reference", "MAX_POOL_2D")],
)
def test_a_mistake_is_found_in_the_node_and_behind_it(
    op: type[Op], step: str, named: str, penstock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    off_by_one(monkeypatch, op)
    said = penstock(*REFERENCE, "--reference", "tflite", "--json")
    assert said.code == 1
    wrong = [rung["step"] for rung in said.json["verified"] if rung["mismatches"]]
    assert wrong == [step]
    assert f"m.tflite: node {1 if named == 'RELU6' else 2} {named}" in said.err


def test_an_undocumented_deviation_is_a_mismatch(
    penstock: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.simulators.tflite_deviations.DEVIATIONS", ())
    assert penstock(*REFERENCE, "--reference", "tflite").code == 1


def test_a_model_of_which_every_node_deviates_is_judged(penstock: CommandLine) -> None:
    """Functions that have no kernel, or one for float32 only; the root and the logarithm of
    negative numbers, too."""
    names = ("x", "root", "log", "y")
    scales, zeros = (0.05, 0.02, 0.04, 0.04), (0, -128, 30, 20)
    tensors = tuple(
        TensorSpec(n, (1, 256), scales=(s,), zero_points=(z,))
        for n, s, z in zip(names, scales, zeros, strict=True)
    )
    operators = (
        OperatorSpec("SQRT", (0,), (1,)),
        OperatorSpec("LOG", (0,), (2,)),
        OperatorSpec("GELU", (2,), (3,), {"approximate": False}),
    )
    Path("m.tflite").write_bytes(write_tflite(tensors, operators, (0,), (1, 3)))
    said = penstock(*REFERENCE, "--reference", "tflite", "--json")
    assert said.code == 0, said.err
    nodes = said.json["verified"][0]["nodes"]
    assert [node["tensor"] for node in nodes] == ["root", "log", "y"]
    assert max(node["differing"] for node in nodes) < 40


def test_the_table_names_operators_that_exist() -> None:
    names = {name for deviation in DEVIATIONS for name in deviation.operators}
    assert names <= set(foreign_names())


def test_no_deviation_applies_without_its_condition() -> None:
    nodes = tflite.decode(network(), "m.tflite").nodes
    assert [deviation_of(node) is not None for node in nodes] == [False, True, False]


@pytest.mark.parametrize("target", ["int32", "int64", "bool"])
def test_casts_of_large_numbers_saturate(penstock: CommandLine, target: str) -> None:
    """Beyond 2^63; to bool, every number but 0 is true, in both."""
    tensors = (
        TensorSpec("x", (1, 256), scales=(2.0**57,), zero_points=(0,)),
        TensorSpec("real", (1, 256), "float32"),
        TensorSpec("y", (1, 256), target),
    )
    operators = (OperatorSpec("DEQUANTIZE", (0,), (1,)), OperatorSpec("CAST", (1,), (2,)))
    Path("m.tflite").write_bytes(write_tflite(tensors, operators, (0,), (2,)))
    said = penstock(*REFERENCE, "--reference", "tflite", "--json")
    assert said.code == 0, said.err
