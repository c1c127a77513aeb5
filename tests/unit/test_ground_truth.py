from __future__ import annotations

import numpy as np
import pytest

from penstock.frontends.open import parse
from penstock.ground_truth import against_goldens
from penstock.ir.tensor import Array
from penstock.simulators.goldens import Goldens
from penstock.simulators.graph import run_graph
from penstock.simulators.tflite_micro import GoldenSet
from tools.tflite_writer import OperatorSpec, TensorSpec, write_tflite

X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)
CENTRE = np.exp(X) - np.float32(1e-4)
TENSORS = (
    TensorSpec("x", X.shape, "float32"),
    TensorSpec("exp", X.shape, "float32"),
    TensorSpec("centre", X.shape, "float32", data=CENTRE),
    TensorSpec("difference", X.shape, "float32"),
)
NODES = (OperatorSpec("EXP", (0,), (1,)), OperatorSpec("SUB", (1, 2), (3,)))
MODEL = parse(write_tflite(TENSORS, NODES, (0,), (3,)), "difference.tflite")


def mismatches(exponentials: Array, differences: Array) -> int:
    """Mismatches against a runtime that computes these tensors."""
    tensors = ((0, X), (1, exponentials), (3, differences))
    golden = GoldenSet((X,), (differences,), tensors)
    goldens = Goldens("m", "a runtime", (0,), ("",), (golden,), 0, ())
    values = run_graph(MODEL, {MODEL.inputs[0].name: X})
    return against_goldens(MODEL, (values,), goldens).mismatches


@pytest.mark.parametrize(("ulps", "wrong"), [(1, 0), (2, 0), (3, 1)])
def test_operators_are_judged_on_the_tensors_that_the_runtime_computes(
    ulps: int, wrong: int
) -> None:
    """Ulps of an exponential are thousands of those of the difference."""
    exponentials = run_graph(MODEL, {MODEL.inputs[0].name: X})[MODEL.nodes[0].name].copy()
    exponentials[0, 7] += ulps * np.spacing(exponentials[0, 7])
    assert mismatches(exponentials, exponentials - CENTRE) == wrong


def test_an_exact_operator_after_an_inexact_one_is_exact() -> None:
    exponentials = run_graph(MODEL, {MODEL.inputs[0].name: X})[MODEL.nodes[0].name]
    differences = exponentials - CENTRE
    differences[0, 0] = np.nextafter(differences[0, 0], np.float32(1))
    assert mismatches(exponentials, differences) == 2
