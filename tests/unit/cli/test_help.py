"""The help texts: sections, complete summaries, a pointer to the glossary."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from command_line import CommandLine
from penstock.cli.app import app
from penstock.cli.help import EXAMPLES, TERMS
from penstock.scheduling.options import Options
from penstock.setting import ACCELERATORS, MEMORY, SEARCH


@pytest.mark.parametrize("command", ["compile", "explore", "run", "verify", "profile"])
def test_search_options_form_a_section(penstock: CommandLine, command: str) -> None:
    said = penstock(command, "--help").out
    own, _, search = said.partition(f"{SEARCH}:\n")
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


def test_memory_and_accelerators_are_sections(penstock: CommandLine) -> None:
    said = penstock("compile", "--help").out
    memory = said.partition(f"{MEMORY}:\n")[2].partition("\n\n")[0]
    accelerators = said.partition(f"{ACCELERATORS}:\n")[2].partition("\n\n")[0]
    assert {"--sram", "--flash", "--stream-input"} <= set(re.findall(r"--[a-z-]+", memory))
    assert {"--accelerator", "--strict"} <= set(re.findall(r"--[a-z-]+", accelerators))


def test_usage_and_arguments_are_written_as_users_type_them(penstock: CommandLine) -> None:
    said = penstock("scan", "--help").out
    assert said.startswith("Usage: penstock scan [OPTIONS] FOLDER\n")
    assert "\n  FOLDER  Folder; its subfolders" in said
    assert penstock("ops", "--help").out.startswith("Usage: penstock ops [OPTIONS] [NAME]\n")


def test_search_options_are_listed_with_their_defaults(penstock: CommandLine) -> None:
    listed = re.findall(r"^--(\S+) +(\S+)", penstock("options").out, re.MULTILINE)
    fields = {f.name.replace("_", "-"): f.default for f in dataclasses.fields(Options)}
    switches = {True: "on", False: "off"}
    shown = {n: switches[x] if isinstance(x, bool) else str(x) for n, x in fields.items()}
    assert dict(listed[: len(fields)]) == shown


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command by its words."""
    for name, command in group.commands.items():
        inner = f"{path} {name}"
        yield from commands(command, inner) if hasattr(command, "commands") else [(inner, command)]


COMMANDS = dict(commands(typer.main.get_command(app), "penstock"))


def test_every_command_has_two_or_three_examples() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()
    assert {len(examples) for examples in EXAMPLES.values()} <= {2, 3}


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_valid_and_shown(penstock: CommandLine, name: str) -> None:
    shown = penstock(*name.split()[1:], "--help").out
    for example in EXAMPLES[name]:
        assert f"  {name} {example}".rstrip() in shown.splitlines()
        words = shlex.split(example.partition(">")[0])
        COMMANDS[name].make_context(name, words)  # raises an exception if they are not
