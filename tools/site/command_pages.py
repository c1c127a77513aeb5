"""Reference of the command line, generated from the commands and their options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from penstock.cli.app import app
from penstock.cli.help import EXAMPLES
from tools.site.markdown import escaped

HEAD = """# Command line

Generated from the commands themselves; `penstock COMMAND --help` prints the same in a terminal.
[Search options](../../options.md) explains the options of the search.

"""


def pages() -> dict[str, str]:
    """Return a page for each command, and their index, by path in the site."""
    root: Any = typer.main.get_command(app)
    found = {_file(words): _page(context) for words, context in _commands(root, (), None)}
    rows = "\n".join(
        f"- [`penstock {' '.join(words)}`]({_file(words).rpartition('/')[2]}): "
        f"{escaped(_summary(context.command.help))}"
        for words, context in _commands(root, (), None)
    )
    names = "\n".join(path.rpartition("/")[2] for path in found)
    found["reference/commands/index.md"] = (
        f"{HEAD}{rows}\n\n{escaped(root.epilog or '')}\n\n"
        f":::{{toctree}}\n:hidden:\n\n{names}\n:::\n"
    )
    return found


def _commands(
    command: Any, words: tuple[str, ...], parent: Any
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words and the context of each command, in the order of the help text."""
    name = words[-1] if words else "penstock"
    context = command.context_class(command, info_name=name, parent=parent)
    if not hasattr(command, "commands"):
        yield words, context
        return
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from _commands(inner, (*words, name), context)


def _file(words: tuple[str, ...]) -> str:
    return f"reference/commands/{'-'.join(words)}.md"


def _summary(text: str | None) -> str:
    """Return the first sentence of a help text."""
    return re.split(r"(?<=\.)\s", " ".join((text or "").split()), maxsplit=1)[0]


def _page(context: Any) -> str:
    command = context.command
    parts = [f"# {context.command_path}", *map(escaped, _paragraphs(command.help))]
    parts.append(f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```")
    parts += _parameters(context)
    if examples := EXAMPLES.get(context.command_path):
        lines = "\n".join(f"{context.command_path} {words}".rstrip() for words in examples)
        parts.append(f"## Examples\n\n```sh\n{lines}\n```")
    parts += map(escaped, _paragraphs(command.epilog))
    return "\n\n".join(parts) + "\n"


def _paragraphs(text: str | None) -> list[str]:
    pieces = re.split(r"\n\s*\n", (text or "").replace("\b", "").replace("\f", "").strip())
    return [" ".join(piece.split()) for piece in pieces if piece.strip()]


def _parameters(context: Any) -> Iterator[str]:
    """Yield a heading for each section of parameters, and their descriptions."""
    sections: dict[str, list[str]] = {}
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        is_argument = parameter.param_type_name == "argument"
        panel = getattr(parameter, "rich_help_panel", None)
        title = panel or ("Arguments" if is_argument else "Options")
        sections.setdefault(title, []).append(f"`{record[0]}`\n: {escaped(record[1]) or '-'}")
    for title, entries in sections.items():
        yield f"## {title}"
        yield "\n\n".join(entries)
