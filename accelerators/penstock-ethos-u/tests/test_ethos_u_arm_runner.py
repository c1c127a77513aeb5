"""ethos_u: Arm's own software runs optimised TFLite files, exactly.

The tests skip without the package mlia-ethos-u, which has the software, or without QEMU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from available import DIGITS, MODELS
from penstock import api
from penstock.errors import ToolError, UsageError
from penstock.simulators.graph import run_graph
from penstock_ethos_u import arm_runner

pytest.importorskip("ethosu.vela.api", reason="the package ethos-u-vela is not installed")


@pytest.fixture
def runner() -> None:
    try:
        arm_runner.require_runner()
    except ToolError as error:
        pytest.skip(error.what)


def outputs(path: str, accelerator: str, file: bytes | None = None) -> tuple[bytes, bytes]:
    """The outputs of Arm's software, and those of the reference."""
    done = api.compile(path, "cortex-m55", accelerators=(accelerator,))
    model, target = done.compilation.model, done.compilation.request.accelerators[0].target
    (inputs,) = api.drawn_sets(done.compilation, 1)
    expected: dict[str, Any] = run_graph(model, inputs)
    given = b"".join(inputs[value.name].tobytes() for value in model.inputs)
    right = b"".join(np.ascontiguousarray(expected[v.name]).tobytes() for v in model.outputs)
    return arm_runner.run(file or done.file("vela-tflite")[1], given, len(right), target), right


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("accelerator", ["ethos_u55:macs=64", "ethos_u55:macs=256", "ethos_u65"])
def test_outputs_are_exact(accelerator: str) -> None:
    found, expected = outputs(str(DIGITS), accelerator)
    assert found == expected


@pytest.mark.usefixtures("runner")
@pytest.mark.parametrize("name", ["padded_branches", "two_heads"])
def test_outputs_of_several_operators_are_exact(name: str) -> None:
    found, expected = outputs(str(MODELS / f"{name}.tflite"), "ethos_u55")
    assert found == expected


@pytest.mark.usefixtures("runner")
def test_a_file_that_the_runner_does_not_take_is_refused() -> None:
    with pytest.raises(ToolError, match="does not run the network to its end"):
        outputs(str(DIGITS), "ethos_u55", b"no file")


def test_the_rung_is_one_of_ethos_u() -> None:
    with pytest.raises(UsageError, match="runs networks on Ethos-U only"):
        api.verify(str(DIGITS), "cortex-m4", last_rung="arm-runner")
