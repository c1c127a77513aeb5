"""Every error of smv has a golden: the exact text on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock_smv
from command_line import CommandLine
from errors.golden import Golden, raised_codes


def test_the_message_of_an_unknown_tiler(
    golden: Golden, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = CommandLine(monkeypatch, capsys)(
        "compile", "zoo:lenet5", "--accelerator", "smv:tiler=fast"
    )
    assert (said.code, said.out) == (2, "")
    golden.check("usage-030", said.err)


def test_every_code_has_a_golden(golden: Golden) -> None:
    assert golden.codes() == set(raised_codes(Path(penstock_smv.__file__).parent))
