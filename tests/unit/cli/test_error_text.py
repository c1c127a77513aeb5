"""Errors on the terminal: suggestions for misspelt words, and colours."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from command_line import CommandLine
from penstock.cli.terminal import print_error
from penstock.errors import UsageError


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("compil MODEL", "compile"),
        ("backend nw", "new"),
        ("compile MODEL --sramm 3", "--sram"),
        ("compile MODEL --target cortexm4", "cortex-m4"),
        ("compile MODEL --stop-after schedul", "schedule"),
        ("show MODEL --stop-after lowr", "lower"),
        ("compile MODEL --optimize spede", "speed"),
        ("compile MODEL --rounding doubel", "double"),
        ("compile MODEL --io mdoel", "model"),
        ("compile MODEL --partition laier", "layer"),
        ("compile MODEL --order dffs", "dfs"),
        ("compile MODEL --memory srm=3k", "sram"),
        ("compile MODEL --accelerator nvdl", "nvdla"),
        ("compile zoo:lenett", "zoo:lenet5"),
        ("compile one_modl.tflite", "one_model.tflite"),
        ("verify MODEL --last-rung cor", "core"),
        ("verify MODEL --reference tflit", "tflite"),
        ("run MODEL --compiler gc", "gcc"),
        ("ops nn.con2d", "nn.conv2d"),
        ("ops CONV2D", "CONV_2D"),
        ("targets --show host-", "host"),
    ],
)
def test_a_misspelt_word_is_recognised(
    penstock: CommandLine, model: Path, words: str, meant: str
) -> None:
    Path("one_model.tflite").write_bytes(b"")
    said = penstock(*words.replace("MODEL", str(model)).split())
    assert said.code in (1, 2)
    found = said.err.lower().replace("'", "").replace('"', "")
    assert f"did you mean {meant.lower()}" in found


def test_an_option_is_only_suggested_if_it_is_like_the_unknown_one(
    penstock: CommandLine, model: Path
) -> None:
    said = penstock("compile", model, "--bogus")
    assert said.err.splitlines()[-1] == "  help: `penstock compile --help` lists what there is"
    assert "did you mean --sram?" in penstock("compile", model, "--ram", "4KiB").err


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


ERROR = UsageError("usage-000", "[red] is :wrong:", where="x" * 300, help="write it\notherwise")


def test_errors_have_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for stream, coloured in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        print_error(ERROR)
        text = stream.getvalue()
        assert ("\x1b[1;31merror[usage-000]" in text) == coloured
        assert (str(ERROR) in text) == (not coloured)


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    print_error(ERROR)
    assert "\x1b[31m" not in stream.getvalue()
    assert "[red] is :wrong:" in stream.getvalue()


def test_errors_of_options_name_the_command(penstock: CommandLine) -> None:
    said = penstock("compile", "zoo:lenet5", "--accelerator")
    assert said.err.splitlines()[1:] == [
        "  --> penstock compile",
        "  help: `penstock compile --help` lists what there is",
    ]


def test_a_part_of_the_same_family_is_suggested(penstock: CommandLine) -> None:
    said = penstock("compile", "zoo:lenet5", "--target", "stm32f411")
    assert 'did you mean "stm32f407"?' in said.err


def test_a_folder_as_a_model_leads_to_scan(penstock: CommandLine) -> None:
    said = penstock("compile", ".")
    assert (said.code, said.out) == (1, "")
    assert "help: `penstock scan` takes a folder; MODEL is" in said.err
