"""The commands that the summary proposes: each yields what the summary says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import beside
from available import SHARED
from command_line import CommandLine, Said

STREAMING = SHARED / "str_ww_ref_model.tflite"


def proposals(said: Said) -> list[tuple[str, str]]:
    """The words and the command of each proposal of a summary."""
    _, _, listed = said.out.partition("other options:\n")
    lines = listed.splitlines()
    return [(lines[k - 1], line.strip()) for k, line in enumerate(lines) if line[:4] == "    "]


@pytest.mark.parametrize(
    ("network", "options", "expected"),
    [
        (
            "zoo:lenet5",
            ("--clock", "84.5MHz"),
            ("--sram", "--stream-input", "--optimize"),
        ),
        (str(STREAMING), ("--max-stripe", "4"), ("--incremental",)),
    ],
)
def test_proposed_commands_yield_what_the_summary_says(
    penstock: CommandLine, network: str, options: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    if network == str(STREAMING):
        beside.needed(STREAMING)
    first = penstock("compile", network, *options, "-o", "first", "--json").json
    found = proposals(penstock("compile", network, *options, "-o", "again"))
    assert all(any(option in command for _, command in found) for option in expected)
    for words, command in found:
        program, *arguments = shlex.split(command)
        assert program == "penstock"
        assert set(options) <= set(arguments)
        done = penstock(*arguments, "--json").json
        assert "error" not in done, command
        assert arguments[-1].startswith("again-")
        assert Path(arguments[-1], "report.html").is_file()
        assert words.startswith(f"{done['ram_bytes']['total']:,} bytes (")
        change = re.search(r"([+-][0-9.e+-]+) % cycles", words)
        assert change is not None
        ratio = done["cycles"]["estimated"] / first["cycles"]["estimated"]
        assert float(change[1]) == pytest.approx(100 * (ratio - 1), rel=0.01, abs=1e-3)


def test_commands_name_model_and_target_as_the_user_does(
    penstock: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "my boards"
    folder.mkdir()
    (folder / "board.toml").write_text(penstock("targets", "--show", "cortex-m4").out)
    found = proposals(
        penstock("compile", "zoo:lenet5", "-t", "my boards/board.toml", "--stack", "2KiB")
    )
    assert found
    for _, command in found:
        begin = "penstock compile zoo:lenet5 --target 'my boards/board.toml' --stack 2048 "
        assert command.startswith(begin)


def test_a_long_command_is_not_wrapped(penstock: CommandLine, model: Path) -> None:
    assert len(str(model)) > 30
    words = ("--max-stripe", "4", "--max-parts", "7", "--stack", "2KiB", "--no-prune-by-shorter")
    (command, *_) = [command for _, command in proposals(penstock("compile", model, *words))]
    assert len(command) > 120
    assert "--no-prune-by-shorter" in command


def test_images_are_not_proposed_as_time_series(penstock: CommandLine) -> None:
    said = penstock("compile", "zoo:resnet8", "--no-alternatives")
    assert "--incremental" not in said.out


@pytest.mark.parametrize(
    ("target", "formats", "noted"),
    [
        ("cortex-m4", "esp-idf,arduino,cmake", ["esp-idf", "arduino"]),
        ("nrf52840", "esp-idf,arduino", ["esp-idf"]),
        ("nrf52840", "platformio", []),
        ("cortex-m4-portable", "all", ["esp-idf"]),
        ("host", "all", []),
    ],
)
def test_packages_for_other_cores_are_noted(
    penstock: CommandLine, model: Path, target: str, formats: str, noted: list[str]
) -> None:
    out = penstock("compile", model, "--target", target, "--package", formats).out
    assert re.findall(r"^note: the (\S+) package", out, re.MULTILINE) == noted
    is_portable = target == "cortex-m4-portable"
    assert ("cycles and times of the report are those of cortex-m4" in out) == is_portable
    proposed = out.count("help: for such a chip, use --target cortex-m4-portable")
    assert proposed == (0 if is_portable else len(noted))
