"""penstock explore: its files and output; a budget selects the point that it promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as package
from command_line import CommandLine
from penstock import api

FILES = [".penstock-files", "frontier.csv", "frontier.html", "frontier.json"]


def test_explore_writes_its_three_files_into_a_new_folder(
    penstock: CommandLine, model: Path
) -> None:
    said = penstock("explore", model, "-t", "cortex-m4", "-o", "out")
    assert (said.code, said.err) == (0, "")
    assert sorted(p.name for p in Path("out").iterdir()) == FILES
    assert said.out.endswith("written to out/\n")
    assert penstock("explore", model).code == 0
    assert sorted(p.name for p in Path("two_heads_frontier").iterdir()) == FILES


def test_json_output_equals_the_report_file(penstock: CommandLine, model: Path) -> None:
    said = penstock("explore", model, "-o", "out", "--json")
    assert (said.code, said.err) == (0, "")
    assert said.json == json.loads(Path("out/frontier.json").read_text())
    assert said.json["frontier_streamed_input"] is not None
    streamed = penstock("explore", model, "-o", "streamed", "--stream-input", "--json").json
    assert streamed["frontier"] == said.json["frontier_streamed_input"]
    assert streamed["frontier_streamed_input"] is None


def test_a_folder_that_is_not_empty_is_not_touched(penstock: CommandLine, model: Path) -> None:
    Path("out").mkdir()
    Path("out/mine").write_text("mine")
    said = penstock("explore", model, "-o", "out")
    assert said.code == 1
    assert said.err.startswith("error[output-001]")
    assert [p.name for p in Path("out").iterdir()] == ["mine"]


def test_a_budget_that_nothing_fits_into_chooses_nothing(
    penstock: CommandLine, model: Path
) -> None:
    said = penstock("explore", model, "--sram", "1025", "-o", "out")
    assert said.code == 0
    assert "nothing fits into 1,025 bytes" in said.out
    assert json.loads(Path("out/frontier.json").read_text())["chosen"] is None


def test_wrong_options_are_refused(penstock: CommandLine, model: Path) -> None:
    assert penstock("explore", model, "--max-parts", "0").code == 2
    assert penstock("explore", model, "--accelerator", "x").code == 2
    assert penstock("explore", "nothing.tflite").code == 1
    assert list(Path().iterdir()) == []


OPTIONS = package.Options(max_stripe=4, placement_work=0)
NETWORK = "zoo:resnet8:resolution=16"


@pytest.fixture(scope="module")
def explored() -> api.Explored:
    return package.explore(NETWORK, "cortex-m4", options=OPTIONS)


def test_compile_reaches_each_choice_with_its_bytes_as_the_budget(explored: api.Explored) -> None:
    choices = explored.choices.choices
    assert len(choices) > 4
    for choice in (choices[0], choices[len(choices) // 2]):
        done = api.compile(NETWORK, "cortex-m4", sram=choice.ram_bytes, options=OPTIONS)
        assert done.report.ram_bytes.total == choice.ram_bytes
        assert done.report.cycles.estimated == choice.cycles
        assert done.report.macs.executed == choice.macs_executed
        assert done.report.cascades == choice.cascades
    with pytest.raises(package.CapacityError):
        api.compile(NETWORK, "cortex-m4", sram=choices[0].ram_bytes - 1, options=OPTIONS)


def test_choices_get_faster_with_memory_and_none_is_below_its_live_bytes(
    explored: api.Explored,
) -> None:
    for series in (explored.choices.choices, explored.choices.streamed or ()):
        assert [c.ram_bytes for c in series] == sorted({c.ram_bytes for c in series})
        assert [c.cycles for c in series] == sorted({c.cycles for c in series}, reverse=True)
        assert all(c.live_bytes <= c.arena_bytes for c in series)


def test_progress_tells_every_stage_and_counts_the_placed() -> None:
    told: list[tuple[str, int, int]] = []

    def on_progress(stage: str, done: int = 0, of: int = 1, /) -> None:
        told.append((stage, done, of))

    explored = api.explore("zoo:lenet5", on_progress=on_progress)
    stages = list(dict.fromkeys(stage for stage, _, _ in told))
    assert stages == [
        *("read", "simplify", "schedule", "place", "schedule streamed", "place streamed")
    ]
    placed = [(done, of) for stage, done, of in told if stage == "place"]
    found = placed[0][1]
    assert placed == [(k, found) for k in range(len(placed))]
    assert found >= len(placed) >= len(explored.choices.choices)
