"""Progress where stderr is no terminal: the stages of commands that take long."""

from __future__ import annotations

import re
from time import sleep

import pytest

from command_line import CommandLine
from penstock.cli import terminal as progress_module
from penstock.cli.terminal import progress
from penstock.pipeline.request import STAGE_NAMES


def test_stages_are_named_once_the_command_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "PATIENCE_WITHOUT_TERMINAL_SECONDS", 0.1)
    with progress(4) as on_stage:
        on_stage("read")
        on_stage("schedule")
        said = ""
        while not said.endswith("\n"):
            sleep(0.01)
            said += capsys.readouterr().err
        on_stage("place", 0, 2)
        on_stage("place", 1, 2)
        on_stage("lower")
    sleep(0.2)
    assert re.fullmatch(r"after \d+ s: schedule\n", said)
    assert re.fullmatch(r"after \d+ s: place\nafter \d+ s: lower\n", capsys.readouterr().err)


def test_a_command_that_ends_soon_prints_no_stages(penstock: CommandLine, model: object) -> None:
    assert penstock("show", model, "--stop-after", "place").err == ""
    assert penstock("compile", model, "--json").err == ""


def test_verbose_states_how_long_the_stages_took(penstock: CommandLine, model: object) -> None:
    out = penstock("compile", model, "--verbose").out
    rows = re.findall(r"^(\S.*?) +(\d+\.\d\d) s$", out.partition("duration of")[2], re.MULTILINE)
    names = [name for name, _ in rows]
    assert names == [*STAGE_NAMES, "other options", "total"]
    *parts, total = (float(seconds) for _, seconds in rows)
    assert abs(sum(parts) - total) < 0.1
    assert "duration" not in penstock("compile", model, "--force").out
