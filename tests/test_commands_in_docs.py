"""Every command in a document parses, and pages name the extras that their commands need."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from penstock.backends.discovery import PUBLISHED
from penstock.cli.app import app

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
COMMANDS: Any = typer.main.get_command(app)
"""The commands, made by typer; some versions of it contain their own click."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
MODULE = re.compile(r"(?:\S*python3?(?:\.\d+)?) -m (\S+)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OTHER_PROGRAMS = frozenset(("--test", "--build"))
"""Options of other programs."""


@dataclass(frozen=True, slots=True)
class Documented:
    """A command in a document; `block`: in a code block, so that it is complete."""

    page: str
    text: str
    block: bool

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def commands(page: Path) -> Iterator[Documented]:
    """The shell commands of a document: code blocks without a language, and inline code."""
    text, name = page.read_text("utf-8"), page.relative_to(ROOT).as_posix()
    for language, block in FENCE.findall(text):
        for line in block.splitlines() if language in ("", "sh", "bash") else ():
            for part in re.split(r"\s*(?:&&|\|)\s*", line.partition("  #")[0]):
                yield Documented(name, part.partition(" > ")[0].strip(), block=True)
    for code in INLINE.findall(FENCE.sub("", text)):
        yield Documented(name, code.replace("\\|", "|"), block=False)


EVERY = [command for page in PAGES for command in commands(page)]
PENSTOCK = [c for c in EVERY if re.match(r"(\S*/)?penstock( |$)", c.text)]
MODULES = [c for c in EVERY if MODULE.match(c.text)]


def test_documents_name_commands() -> None:
    assert len({c.text for c in PENSTOCK if c.block}) > 25
    assert len({c.text for c in MODULES}) > 25


@pytest.mark.parametrize("command", PENSTOCK, ids=str)
def test_penstock_understands_the_command(command: Documented) -> None:
    words = shlex.split(command.text)[1:]
    found = COMMANDS
    while hasattr(found, "commands") and words and not words[0].startswith("-"):
        assert words[0] in found.commands, f"there is no command {words[0]}"
        found = found.commands[words.pop(0)]
    if hasattr(found, "commands") or "--help" in words:
        return
    problem = problem_with(found, ["1" if word == "N" else word for word in words])
    assert problem is None or (type(problem).__name__, command.block) == ("MissingParameter", False)


def problem_with(command: Any, words: list[str]) -> Exception | None:
    """The error of a command for its arguments, or None."""
    try:
        command.make_context(command.name, words)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("command", MODULES, ids=str)
def test_a_module_understands_the_options(command: Documented) -> None:
    matched = MODULE.match(command.text)
    assert matched is not None
    name = matched[1]
    if not name.startswith(("benchmarks.", "tools.", "examples.")):
        return
    path = ROOT / name.replace(".", "/")
    assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
    for option in OPTION.findall(command.text):
        assert re.search(rf"{option}(?![\w-])", help_of(name)), f"{name} has no option {option}"


def test_a_module_s_options_that_are_not_there_are_found() -> None:
    assert "--models" in help_of("benchmarks.requantisation")
    with pytest.raises(AssertionError, match="has no option --nothing"):
        test_a_module_understands_the_options(
            Documented("x", "python -m benchmarks.requantisation --nothing", block=True)
        )


@pytest.mark.parametrize(
    "text", ["penstock compile M --nothing", "penstock nothing", "penstock run M --workers many"]
)
def test_unknown_commands_and_options_are_detected(text: str) -> None:
    with pytest.raises(AssertionError):
        test_penstock_understands_the_command(Documented("x", text, block=True))


@cache
def options_of_penstock() -> frozenset[str]:
    """The options of every command."""

    def walk(command: Any) -> Iterator[str]:
        yield "--help"
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)
        for inner in getattr(command, "commands", {}).values():
            yield from walk(inner)

    return frozenset(walk(COMMANDS))


def test_options_that_are_named_alone_exist() -> None:
    """Options of penstock, of a benchmark (in its page) or of the tests."""
    own = (ROOT / "conftest.py").read_text("utf-8")
    unknown = [
        str(command)
        for command in EVERY
        if not command.block and OPTION.match(command.text)
        for option in OPTION.findall(command.text)
        if option not in options_of_penstock() | OTHER_PROGRAMS
        and not (command.page.startswith("benchmarks/") and named_by_a_benchmark(option))
        and f'"{option}"' not in own
    ]
    assert unknown == []


def named_by_a_benchmark(option: str) -> bool:
    return any(f'"{option}"' in p.read_text("utf-8") for p in (ROOT / "benchmarks").glob("*.py"))


@cache
def help_of(name: str) -> str:
    """The help text of a module; the docstring of a module without options."""
    module = importlib.import_module(name)
    if hasattr(module, "__path__"):
        module = importlib.import_module(f"{name}.__main__")
    if "argparse" not in Path(str(module.__file__)).read_text("utf-8"):
        return module.__doc__ or ""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit):
        module.main(["--help"])
    return out.getvalue()


NEEDS = {
    r"--reference tflite|penstock golden": "reference",
    r"\.keras\b": "keras",
    r"\.pt2\b": "torch",
} | {rf"--accelerator {name}\b": extra for name, extra in PUBLISHED.items()}
"""By pattern, the extra that commands need."""


def test_a_page_names_the_extras_that_its_commands_need() -> None:
    found = {
        (command.page, extra)
        for command in EVERY
        for pattern, extra in NEEDS.items()
        if command.block and re.search(pattern, command.text)
    }
    assert {extra for _, extra in found} >= {"reference", "ethos-u", "smv"}
    missing = [
        (page, extra)
        for page, extra in sorted(found)
        if not re.search(
            rf"pip install (-e )?\S*\[(\S*,)?{extra}[\],]", (ROOT / page).read_text("utf-8")
        )
    ]
    assert missing == []


def test_every_benchmark_is_documented() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    programs = (
        p for p in (ROOT / "benchmarks").glob("*.py") if "entry(main)" in p.read_text("utf-8")
    )
    assert [p.stem for p in programs if f"python -m benchmarks.{p.stem}" not in page] == []
