"""Cycles as time: `--clock`, and the clock of a target file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as package
from command_line import CommandLine


def test_cycles_are_also_stated_as_time(penstock: CommandLine) -> None:
    said = penstock("compile", "zoo:lenet5", "--clock", "100MHz", "-o", "out")
    found = json.loads(Path("out/report.json").read_text())
    cycles = found["cycles"]["estimated"]
    assert found["clock_hz"] == 100_000_000
    assert found["milliseconds"]["estimated"] == pytest.approx(cycles / 100_000)
    assert found["inferences_per_second"]["estimated"] == pytest.approx(100_000_000 / cycles)
    assert found["milliseconds"]["simulated"] is None
    assert f"estimated: {cycles / 100_000:.3g} ms at 100 MHz" in said.out
    assert "inferences/s" in said.out


def test_a_target_states_its_clock(penstock: CommandLine) -> None:
    text = penstock("targets", "--show", "cortex-m4").out
    Path("board.toml").write_text(f'clock = "168MHz"\n{text}')
    words = ("zoo:lenet5", "-t", "board.toml", "--json")
    assert penstock("compile", *words, "-o", "1").json["clock_hz"] == 168_000_000
    said = penstock("compile", *words, "--clock", "84MHz", "-o", "2").json
    assert said["clock_hz"] == 84_000_000
    assert penstock("compile", "zoo:lenet5", "--json").json["clock_hz"] is None


def test_explore_and_profile_state_times(penstock: CommandLine) -> None:
    said = penstock("explore", "zoo:lenet5", "--clock", "1MHz", "-o", "out")
    assert "ms at" in said.out
    found = json.loads(Path("out/frontier.json").read_text())
    for point in (*found["frontier"], *found["frontier_streamed_input"]):
        assert point["milliseconds"] == pytest.approx(point["cycles"] / 1000)
    said = penstock("profile", "zoo:lenet5", "--clock", "1MHz", "--no-simulate")
    assert " ms " in said.out


@pytest.mark.parametrize("clock", ["168 MegaHertz", "0", "-1MHz", "0.5", "200GHz", ""])
def test_a_wrong_clock_is_an_error(penstock: CommandLine, clock: str) -> None:
    said = penstock("compile", "zoo:lenet5", f"--clock={clock}")
    assert said.code == 2
    assert said.err.startswith("error[usage-003]: ")
    assert "--> --clock" in said.err
    assert list(Path().iterdir()) == []


def test_reports_state_version_and_command(penstock: CommandLine) -> None:
    words = ("zoo:lenet5", "--stack", "2KiB", "--max-parts", "7")
    penstock("compile", *words, "-o", "out")
    penstock("explore", *words, "-o", "frontier")
    command = "penstock compile zoo:lenet5 --target cortex-m4 --stack 2048 --max-parts 7"
    for name in ("out/report.json", "frontier/frontier.json"):
        found = json.loads(Path(name).read_text())
        assert (found["version"], found["command"]) == (package.__version__, command)
