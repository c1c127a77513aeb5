"""Every error of smv has a golden: the exact text on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock_smv
from command_line import CommandLine
from errors.golden import Golden, raised_codes
from penstock.uma import (
    INPUT,
    OUTPUT,
    Axis,
    Dimension,
    Layer,
    LayerOperand,
    Scratchpads,
    choose,
)
from penstock_smv.smaug import Smaug
from penstock_smv.tiled_tensor import TiledTensor


def test_the_message_of_an_unknown_tiler(
    golden: Golden, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = CommandLine(monkeypatch, capsys)(
        "compile", "zoo:lenet5", "--accelerator", "smv:tiler=fast"
    )
    assert (said.code, said.out) == (2, "")
    golden.check("usage-030", said.err)


def test_the_message_of_a_layer_without_a_rule(golden: Golden) -> None:
    line = (Dimension(4, "c"),)
    doubled = Layer(
        "doubled",
        (Axis("c", 4),),
        (LayerOperand("x", INPUT, line),),
        LayerOperand("y", OUTPUT, line),
    )
    golden.check_call("tiling-006", lambda: choose(Smaug(), doubled, Scratchpads.shared(64)))


def test_the_message_of_a_tile_outside_of_the_grid(golden: Golden) -> None:
    golden.check_call("tiling-009", lambda: TiledTensor.split((9,), (5,)).tile(2))


def test_every_code_has_a_golden(golden: Golden) -> None:
    assert golden.codes() == set(raised_codes(Path(penstock_smv.__file__).parent))
