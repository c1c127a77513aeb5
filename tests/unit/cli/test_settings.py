"""A setting is declared once, in a request; all that users see of it derives from that."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import typer

import penstock as package
from command_line import CommandLine
from penstock import api
from penstock.api.settings import Settings
from penstock.cli.app import app
from penstock.pipeline.emission import command_line
from penstock.pipeline.request import KEYWORDS, SETTINGS
from penstock.scheduling.options import Options
from penstock.setting import SEARCH, Setting
from tools.make_docs import options
from tools.site.command_pages import pages

WITH_OPTION = tuple(one for one in SETTINGS if one.help)
OF_SEARCH = tuple(one for one in WITH_OPTION if one.group == SEARCH)
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # pyright: ignore
FUNCTIONS = (*(package.compile, package.explore, package.run, package.verify), api.sweep)
PAGES = pages()


@pytest.mark.parametrize("one", WITH_OPTION, ids=lambda one: one.name)
def test_exactly_the_commands_that_a_setting_names_take_its_option(one: Setting) -> None:
    takers = {
        name
        for name, command in COMMANDS.items()
        if any(one.flag in parameter.opts for parameter in command.params)
    }
    assert takers == set(one.commands)
    for name in takers:
        page = PAGES[f"reference/commands/{name}.md"]
        assert re.search(rf"^`{one.flag}\b.*\n: ", page, re.MULTILINE)


@pytest.mark.parametrize("one", KEYWORDS, ids=lambda one: one.name)
def test_each_setting_is_a_keyword_with_its_default_and_description(one: Setting) -> None:
    for function in FUNCTIONS:
        assert inspect.signature(function).parameters[one.name].default == one.python_default
        assert f" {one.name}: {one.python}." in " ".join((function.__doc__ or "").split())


def test_every_option_is_a_keyword_or_an_option_of_the_search() -> None:
    own = {one.name for one in WITH_OPTION if one not in OF_SEARCH}
    keywords = {one.name for one in KEYWORDS}
    assert own | {"options", "schedule"} == keywords == Settings.__annotations__.keys()


def test_search_options_are_on_their_page_and_in_the_list(penstock: CommandLine) -> None:
    flags = [one.flag for one in OF_SEARCH]
    assert flags == re.findall(r"^\| `(--\S+)` ", options(), re.MULTILINE)
    assert flags == [row["option"] for row in penstock("options", "--json").json["options"]]


@pytest.mark.parametrize("name", ["compile", "profile", "scan", "show"])
def test_shells_complete_every_option(
    penstock: CommandLine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"penstock {name} --")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert {one.flag for one in WITH_OPTION if name in one.commands} <= set(penstock().out.split())


@pytest.mark.parametrize("one", OF_SEARCH, ids=lambda one: one.name)
def test_a_command_states_each_search_option(one: Setting) -> None:
    other: Any = next((name for name in one.names if name != one.default), None)
    if other is None:
        other = not one.default if isinstance(one.default, bool) else one.default + 1
    words = (one.flag, str(other))
    if isinstance(other, bool):
        words = (one.flag if other else f"--no-{one.option}",)
    wanted = api.request("zoo:lenet5", options=Options(**{one.name: other}))
    assert command_line(wanted).options == words
