"""The help texts: sections, complete summaries, a pointer to the glossary."""

from __future__ import annotations

import dataclasses
import re

import pytest

from command_line import CommandLine
from penstock.cli.sections import SEARCH_OPTIONS, TERMS
from penstock.scheduling.options import Options


@pytest.mark.parametrize("command", ["compile", "explore", "run", "verify", "profile"])
def test_search_options_form_a_section(penstock: CommandLine, command: str) -> None:
    said = penstock(command, "--help").out
    own, _, search = said.partition(f"{SEARCH_OPTIONS}:\n")
    listed = re.findall(r"^  --([a-z-]+)", search, re.MULTILINE)
    assert listed == [f.name.replace("_", "-") for f in dataclasses.fields(Options)]
    assert "--sram" in own
    assert " ".join(said.split()).endswith(TERMS)


def test_the_list_of_commands_shows_whole_summaries(penstock: CommandLine) -> None:
    said = penstock("--help").out.partition("Commands:\n")[2]
    commands = said.partition("\n\n")[0].splitlines()
    assert len(commands) > 10
    assert [line for line in commands if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("command", ["compile", "run", "verify", "golden", "show"])
def test_help_shows_no_python_types(penstock: CommandLine, command: str) -> None:
    shown = set(re.findall(r"<(.+?)>", penstock(command, "--help").out))
    assert shown <= {"str", "int", "float", "path"}
